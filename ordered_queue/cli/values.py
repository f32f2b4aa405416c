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

    Only where nothing but a text will do. A JSON string is what it says there too, so quoting does no harm.
    """
    properties = cast("Mapping[str, Mapping[str, Any]]", (schema or {}).get("properties") or {})
    texts = {name for name, kind in properties.items() if kind.get("type") == "string"}

    def read(name: str, text: str) -> Any:
        value = read_value(name, text)
        return text if name in texts and not isinstance(value, str) else value

    return read


def strict_json(text: str) -> Any:
    """What the text is as JSON.

    Raises:
        ValueError, RecursionError: it is none.
    """
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"JSON has no {name}")
