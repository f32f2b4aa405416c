import pytest

from ordered_queue import DeploymentRefused
from ordered_queue.submission import is_cancel_new
from ordered_queue.suitability import refuse_unsuitable
from tests.factories import a_deployment


def test_cancel_new_is_refused_and_says_how_to_change_it():
    deployment = a_deployment(strategy="CANCEL_NEW")

    assert is_cancel_new(deployment)
    with pytest.raises(DeploymentRefused, match=r"CANCEL_NEW.*collision_strategy: ENQUEUE"):
        refuse_unsuitable(deployment)


@pytest.mark.parametrize("strategy", [None, "ENQUEUE"])
def test_enqueue_is_accepted(strategy):
    refuse_unsuitable(a_deployment(strategy=strategy))
