"""Whether a run that is there already is the one that a repeated submission asks for.

A key says so; what else was sent must bear it out, or a list sent with an old key would pass for parked.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ordered_queue.submission import TEMPLATE_MARK


def is_same_request(sent: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a run that is there can have come of the parameters that are sent now.

    Every name that is sent must be in the run, with the value that is sent. What the run has beyond that is taken for
    defaults of its deployment, of whatever time: they go into a run as it is made, and deploying anew may since have
    changed them, added some or taken some off.

    Not detected is therefore a caller that leaves a parameter out which it sent before: the run does not say whether a
    name came from the caller or from the deployment. Detected is every other difference: a value that is another, and
    a name that the run does not have.

    Args:
        sent: what the submitter asks for, as JSON.
        found: what the run has.
    """
    if TEMPLATE_MARK in repr(sent):
        return True  # The server filled them in.
    return all(name in found and is_same_json(value, found[name]) for name, value in sent.items())


def is_same_json(one: object, other: object) -> bool:
    """Whether two JSON values are the same, though one went through a database that may keep 1.0 as 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, float | int):
        return _is_same_number(one, other)
    if isinstance(one, int) and isinstance(other, float):
        return _is_same_number(other, one)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast("Mapping[object, object]", one), cast("Mapping[object, object]", other)
        return ours.keys() == theirs.keys() and all(is_same_json(value, theirs[key]) for key, value in ours.items())
    if isinstance(one, list) and isinstance(other, list):
        mine, yours = cast("list[object]", one), cast("list[object]", other)
        return len(mine) == len(yours) and all(map(is_same_json, mine, yours))
    return one == other


def _is_same_number(number: float, other: float) -> bool:
    try:
        return number == float(other)  # 1e23 comes back as 100000000000000000000000, which it is not exactly.
    except OverflowError:
        return False
