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
    ("count", "may_be_more", "done"),
    [
        (0, True, "No run is parked for certain"),
        (1, True, "At least the first run is parked"),
        (2, True, "At least the first 2 runs are parked"),
        (0, False, "Nothing of it was sent"),
        (1, False, "The first run is parked, nothing of the rest was sent"),
        (2, False, "The first 2 runs are parked, nothing of the rest was sent"),
    ],
)
def test_an_incomplete_submission_says_how_far_it_got(count, may_be_more, done):
    assert str(SubmissionIncomplete(count, "k", "no answer", may_be_more=may_be_more)) == (
        f"{done}: no answer. Submit the same runs again with submission_key='k'; nothing will be parked twice."
    )
