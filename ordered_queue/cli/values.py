"""What a text stands for as the value of a parameter, where no format says so: in `--param` and in CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias, cast

ReadValue: TypeAlias = Callable[[str, str], Any]
"""Given a parameter's name and a text, the value."""


def read_value(_: str, text: str) -> Any:
    """What the text is as JSON; the text itself if it is no JSON."""
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        return text


def reader_for(schema: Mapping[str, Any] | None) -> ReadValue:
    """How to read the values of a flow's parameters, given their schema: for a `str`, 12 is a text.

    Only where nothing but a text will do, or a text or null. A JSON string is what it says there too, so quoting does
    no harm.
    """
    properties = cast("Mapping[str, Mapping[str, Any]]", (schema or {}).get("properties") or {})
    types = {name: _types(kind) for name, kind in properties.items()}

    def read(name: str, text: str) -> Any:
        value = read_value(name, text)
        wanted = types.get(name, set())
        if "string" not in wanted or not wanted <= {"string", "null"} or isinstance(value, str):
            return value
        return None if value is None and "null" in wanted else text

    return read


def _types(kind: Mapping[str, Any]) -> set[object]:
    """The JSON types that a parameter takes, as pydantic writes them: one, or several under `anyOf`."""
    choices = cast("list[Mapping[str, Any]]", kind.get("anyOf") or [kind])
    return {choice.get("type") for choice in choices}


def strict_json(text: str, as_object: Callable[[list[tuple[str, Any]]], dict[str, Any]] = dict) -> Any:
    """What the text is as JSON.

    Args:
        text: the text.
        as_object: what becomes of the names and values of an object.

    Raises:
        ValueError, RecursionError: it is none.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=as_object)


def each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values.

    Raises:
        ValueError: a name comes twice. Python would keep the last value and say nothing.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in made if names.count(name) > 1)
        raise ValueError(f"it names {twice!r} twice")
    return made


def _refuse_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"JSON has no {name}")
