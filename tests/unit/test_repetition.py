import pytest

from ordered_queue.repetition import is_same_json, is_same_request

TEMPLATE = {"__prefect_kind": "workspace_variable", "variable_name": "t"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 1),
        (1e23, 10**23),
        (2**70, 2**70),
        ({"a": [1, {"b": None}], "c": True}, {"c": True, "a": [1.0, {"b": None}]}),
        ("é", "é"),
    ],
)
def test_values_are_the_same_when_json_says_so(one, other):
    assert is_same_json(one, other)
    assert is_same_json(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0.0, False),
        (1, "1"),
        (None, False),
        (1.5, 10**400),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
        ([1], {"0": 1}),
    ],
)
def test_values_differ_when_json_says_so(one, other):
    assert not is_same_json(one, other)
    assert not is_same_json(other, one)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({"table": "a"}, {"table": "a"}),
        # A default of the deployment's, whether or not it has that still.
        ({"table": "a"}, {"table": "a", "day": "monday"}),
        ({}, {"table": "a"}),
        ({"table": TEMPLATE}, {"table": "filled in"}),
        ({}, {"table": "filled in"}),
    ],
)
def test_a_request_is_the_same_when_the_run_may_have_come_of_it(sent, found):
    assert is_same_request(sent, found)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({"table": "b"}, {"table": "a"}),
        ({"table": "b"}, {"table": "a", "day": "monday"}),
        ({"table": "a", "day": "monday"}, {"table": "a"}),
        ({"table": None}, {}),
    ],
)
def test_a_request_is_another_when_the_run_cannot_have_come_of_it(sent, found):
    assert not is_same_request(sent, found)
