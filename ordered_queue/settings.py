"""Settings, read through Prefect's own classes: environment, ``.env``, ``prefect.toml``, ``pyproject.toml``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field, ValidationError

from ordered_queue.errors import InvalidSetting


class OrderedQueueSettings(PrefectBaseSettings):
    """Settings of the queue; each is read from ``PREFECT_INTEGRATIONS_ORDERED_QUEUE_<NAME>``.

    A duration reads ``P7D``, ``PT30M`` or ``00:30:00`` (hours:minutes:seconds).
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
        problems = [
            f"{'.'.join(str(part) for part in problem['loc'])} "
            f"(PREFECT_INTEGRATIONS_ORDERED_QUEUE_{'_'.join(str(part) for part in problem['loc']).upper()}) is "
            f"{problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise InvalidSetting("; ".join(problems)) from error
