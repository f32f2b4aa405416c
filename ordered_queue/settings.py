"""Settings, read through Prefect's own classes: environment, ``.env``, ``prefect.toml``, ``pyproject.toml``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, cast

from prefect.settings import get_current_settings
from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ordered_queue.errors import InvalidSetting


class OrderedQueueSettings(PrefectBaseSettings):
    """Settings of the queue; each is read from ``PREFECT_INTEGRATIONS_ORDERED_QUEUE_<NAME>``.

    A duration reads ``P7D``, ``PT30M`` or ``00:30:00`` (hours:minutes:seconds). A text that is but a number does not.
    """

    model_config = build_settings_config(("integrations", "ordered_queue"))

    promoted_timeout: Annotated[
        timedelta,
        Field(
            default=timedelta(minutes=30),
            ge=timedelta(minutes=1),
            le=timedelta(days=1),
            description=(
                "How long a due run that nobody takes counts as occupying a slot. Longer than the slowest start of a "
                "process here: push work pools take 5 to 15 minutes."
            ),
        ),
    ]
    stall_timeout: Annotated[
        timedelta,
        Field(
            default=timedelta(seconds=60),
            ge=timedelta(seconds=1),
            le=timedelta(hours=1),
            description="How long `park` goes on without progress before it says how long a prefix is parked.",
        ),
    ]


def load_settings() -> OrderedQueueSettings:
    """The settings as they are now.

    Raises:
        InvalidSetting: which one has a bad value, and what is wrong with it.
    """
    try:
        return OrderedQueueSettings()  # pyright: ignore[reportCallIssue]  # pydantic fills the fields in from outside
    except ValidationError as error:
        raise InvalidSetting(" ".join(map(_told, error.errors()))) from error


def most_parameter_bytes() -> int:
    """How large a run's parameters may be, as JSON; 0 is no limit.

    Source: ``PREFECT_SERVER_API_MAX_PARAMETER_SIZE``, 524,288 by default. It is the server's own setting, and is
    read as it is set where the runs are submitted; so whoever raised it on the server sets it there too.
    """
    return get_current_settings().server.api.max_parameter_size


def _told(problem: ErrorDetails) -> str:
    """A problem as whoever set the setting needs it; pydantic's own words are about timedeltas."""
    name = ".".join(str(part) for part in problem["loc"])
    field = OrderedQueueSettings.model_fields.get(name)
    wanted = problem["msg"] if field is None else f"it must be a duration such as PT30M or 00:30:00, {_bounds(field)}"
    given = problem["input"]
    shown = _iso(given) if isinstance(given, timedelta) else repr(given)
    return f"{name} (PREFECT_INTEGRATIONS_ORDERED_QUEUE_{name.upper().replace('.', '_')}) is {shown}; {wanted}."


def _bounds(field: FieldInfo) -> str:
    lowest, highest = (
        next(value for bound in field.metadata if (value := getattr(bound, kind, None)) is not None)
        for kind in ("ge", "le")
    )
    return f"from {_iso(lowest)} to {_iso(highest)}"


def _iso(duration: object) -> str:
    return TypeAdapter(timedelta).dump_python(cast("timedelta", duration), mode="json")
