import pytest

from ordered_queue import InvalidRun, SubmissionIncomplete


@pytest.mark.parametrize(
    ("count", "done"),
    [(0, "Nothing was parked."), (1, "The run before it is parked."), (2, "The 2 runs before it are parked.")],
)
def test_a_bad_row_says_what_is_parked_and_what_to_do(count, done):
    assert str(InvalidRun(count, "it is odd.", count)) == (
        f"Run {count} of the submission is not valid: it is odd. {done} Correct the row and submit again with the same "
        "submission key."
    )


def test_a_bad_row_leaves_the_advice_to_its_reason_when_there_is_none():
    assert str(InvalidRun(0, "use a new key.", advice="")).endswith("use a new key. Nothing was parked.")


@pytest.mark.parametrize(
    ("count", "done"),
    [
        (0, "No run is parked for certain"),
        (1, "The first run is parked, the rest is not"),
        (2, "The first 2 runs are parked, the rest is not"),
    ],
)
def test_an_incomplete_submission_says_how_far_it_got(count, done):
    assert str(SubmissionIncomplete(count, "k", "no answer")) == (
        f"{done}: no answer. Submit the same runs again with submission_key='k'; nothing will be parked twice."
    )
