"""What can travel to a Prefect server and be kept there.

Found out before anything is created: for one row that it cannot keep the server fails a whole chunk, or takes it in and
fails later.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, cast

MOST_TEXT_BYTES = 2_000
"""The most bytes, as UTF-8, of a submission key, an idempotency key, a run's name and a tag.

Source: an entry of a PostgreSQL B-tree index holds at most 2,704 bytes (``BTMaxItemSize``). Prefect has one over flow
and idempotency key (``uq_flow_run__flow_id_idempotency_key``), one over the name (``ix_flow_run__name``) and one over
the resources of events, of which each tag is one (``ix_event_resources__resource_id__occurred``). The deployment's id
and the position come on top of a submission key. What compresses well may be longer there; nobody can tell beforehand.
"""


SURROGATE = re.compile("[\ud800-\udfff]")


def unsendable(value: object) -> str | None:
    """Why a value cannot travel to the server and be stored there; None if it can.

    Source: PostgreSQL stores no NUL in text, and one such row makes the whole bulk request roll back while it
    answers CREATED; JSON has neither lone surrogates nor NaN.
    """
    if isinstance(value, str):
        if "\x00" in value:
            return "holds a NUL character, which PostgreSQL cannot store"
        if not value.isascii() and SURROGATE.search(value):
            return "holds half of a surrogate pair, which is not valid Unicode"
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON cannot express"
    inner: list[object] = []
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        inner = [*items.keys(), *items.values()]
    elif isinstance(value, list | tuple | set | frozenset | deque):
        inner = list(cast("Iterable[object]", value))
    return next((reason for reason in map(unsendable, inner) if reason is not None), None)


def too_long(text: str) -> str | None:
    """Why a text is too long for the database's indexes; None if it is not."""
    size = len(text.encode(errors="surrogatepass"))
    if size <= MOST_TEXT_BYTES:
        return None
    return f"takes {size:,} bytes; {MOST_TEXT_BYTES:,} are the most"


def bad_submission_key(key: str) -> str | None:
    """Why a text will not do as a submission key; None if it will.

    An empty one is most likely an unset variable: every submission made so would count as one and the same.
    """
    if not key.strip():
        return "is empty"
    return unsendable(key) or too_long(key)


def too_large(parameters: Mapping[str, Any], most_bytes: int) -> str | None:
    """Why parameters, as JSON, are too large for the server; None if they are not.

    Args:
        parameters: of one run.
        most_bytes: the server's limit; 0 is none.

    Source: ``prefect._internal.schemas.validators.validate_parameter_size``, which measures just so.
    """
    size = len(json.dumps(parameters, separators=(",", ":")))
    if size <= most_bytes or most_bytes == 0:
        return None
    return (
        f"its parameters take {size:,} bytes as JSON; {most_bytes:,} are the most that the server takes "
        "(PREFECT_SERVER_API_MAX_PARAMETER_SIZE: if it is more on your server, set it here too)."
    )
