"""Eight processes fill one queue at the same moment, again and again, while the server has much else to write.

Thousands of rounds: ``python -m bench.promoters``.
"""

import pytest

from tests.server.many_promoters import LIMIT, ROUNDS, VIOLATIONS, play, promoters, under_write_load


@pytest.fixture
def promoting(server):
    with promoters(server) as started:
        yield started


@pytest.mark.parametrize(("server", "rounds"), [("sqlite", ROUNDS), ("postgresql", 10)], indirect=["server"])
def test_eight_promoters_promote_each_run_once_in_order_and_fill_every_slot(server, deploy, promoting, rounds):
    with under_write_load(server, deploy(limit=None).id):
        seen = play(deploy(limit=LIMIT), promoting, rounds)

    assert {kind: seen[kind] for kind in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0)
    assert seen["rounds"] == rounds
