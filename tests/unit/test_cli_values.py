import math

import pytest
from prefect.utilities.callables import parameter_schema

from ordered_queue.cli.values import each_name_once, read_value, reader_for, strict_json


def load(table: str, size: int, note: str | None = None, either: str | int = 1, rest=None): ...


READ = reader_for(parameter_schema(load).model_dump_for_openapi())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('"1"', "1"),
        ('{"a": [1]}', {"a": [1]}),
        ("orders", "orders"),
        ("2026-03-01", "2026-03-01"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("[1,", "[1,"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_a_value_is_read_as_json_or_stays_text(text, value):
    assert read_value("any", text) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("table", "12", "12"),
        ("table", "true", "true"),
        ("table", '{"a": 1}', '{"a": 1}'),
        ("table", "orders", "orders"),
        ("table", '"12"', "12"),
        ("size", "12", 12),
        ("note", "12", "12"),
        ("note", "true", "true"),
        ("note", '"12"', "12"),
        # Something else than a text will do here.
        ("note", "null", None),
        ("either", "12", 12),
        ("either", "null", None),
        ("rest", "12", 12),
        ("unknown", "12", 12),
    ],
)
def test_a_value_stays_text_when_the_flow_takes_nothing_else(name, text, value):
    assert READ(name, text) == value


@pytest.mark.parametrize("schema", [None, {}, {"properties": {}}])
def test_a_value_is_read_as_json_when_there_is_no_schema(schema):
    assert reader_for(schema)("table", "12") == 12


def test_an_object_keeps_each_name_once_or_is_refused():
    assert strict_json('{"a": {"b": 1}, "b": 2}', each_name_once) == {"a": {"b": 1}, "b": 2}
    with pytest.raises(ValueError, match="it names 'b' twice"):
        strict_json('{"a": [{"b": 1, "c": 2, "b": 1}]}', each_name_once)


def test_a_number_that_is_too_large_is_infinite_for_the_check_of_the_run():
    assert math.isinf(read_value("any", "1e999"))
