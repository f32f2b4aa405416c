import math
from collections import deque

import pytest

from ordered_queue.sendable import MOST_TEXT_BYTES, bad_submission_key, too_large, too_long, unsendable


def test_a_backslash_is_no_nul():
    assert unsendable({"path": "C:\\u0000"}) is None


@pytest.mark.parametrize("box", [list, tuple, set, frozenset, deque, lambda values: dict.fromkeys(values, 1)])
def test_a_nan_is_found_in_whatever_holds_it(box):
    assert unsendable({"inside": box([1.0, math.nan])}) == "is nan, which JSON cannot express"
    assert unsendable({"inside": box([1.0, 2.0])}) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * MOST_TEXT_BYTES, None),
        ("x" * (MOST_TEXT_BYTES + 1), "takes 2,001 bytes; 2,000 are the most"),
        ("ü" * 1_001, "takes 2,002 bytes; 2,000 are the most"),
    ],
)
def test_a_text_is_measured_in_bytes(text, reason):
    assert too_long(text) == reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("monday", None),
        ("", "is empty"),
        (" \t\n", "is empty"),
        ("a\x00", "holds a NUL character, which PostgreSQL cannot store"),
        ("\ud800", "holds half of a surrogate pair, which is not valid Unicode"),
        ("x" * 3_000, "takes 3,000 bytes; 2,000 are the most"),
    ],
)
def test_a_submission_key_is_refused_when_it_cannot_tell_one_submission_from_another_or_be_kept(key, reason):
    assert bad_submission_key(key) == reason


@pytest.mark.parametrize(("most_bytes", "is_refused"), [(14, False), (13, True), (0, False)])
def test_parameters_are_measured_as_the_server_measures_them(most_bytes, is_refused):
    reason = too_large({"t": "ü"}, most_bytes)  # {"t":"\u00fc"}

    assert (reason is not None) == is_refused
