"""From what a submitter asks for to what the server is sent, and what is refused on the way.

A submission is checked here as the server would check it, so that bad input parks nothing. What only the server can
know (a template in the parameters, another flow's rules) it still checks itself.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]  # partly untyped stub
from prefect.client.schemas.actions import DeploymentFlowRunCreate
from prefect.client.schemas.responses import DeploymentResponse
from pydantic_core import to_jsonable_python

from ordered_queue.errors import InvalidRun, shortened
from ordered_queue.ordering import PARKED_TAG, parked_time
from ordered_queue.runs import RunRequest
from ordered_queue.sendable import bad_submission_key, too_large, too_long, unsendable

PARKED_STATE = "Parked"
SUBMISSION_LABEL = "ordered-queue.submission"
POSITION_LABEL = "ordered-queue.position"
VERSION_LABEL = "ordered-queue.version"
"""Says which version of this package parked a run. Every version treats a tagged run as a member, whatever it says."""

MOST_TAGS = 90
"""Tried on 3.9.1: with 99 tags every change of a run's state answers 500, so it could be parked and never start."""

TOO_DEEP = "it is nested too deeply, or holds itself."

OF_DEPTH = ("RecursionError", "depth exceeded", "Circular reference")
"""In what pydantic says when that is so. It goes down 255 levels, Python's own JSON some hundred more."""

TEMPLATE_MARK = "__prefect_kind"
"""Parameters that hold this are templates: only the server can fill them in and check the result."""

UNKNOWN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
"""What the server puts in for a deployment that was made without a schema: it says nothing about the flow."""


@dataclass(frozen=True)
class PreparedRun:
    """A checked row of a submission.

    Attributes:
        position: 0-based place in the submission.
        key: its idempotency key.
        body: what the server is sent, but for the state.
        has_own_key: whether the key is the caller's own, not made of the submission's.
    """

    position: int
    key: str
    body: Mapping[str, Any]
    has_own_key: bool = False

    def create_body(self, base: datetime) -> dict[str, Any]:
        """The whole request item that parks this run, counting from `base`."""
        when = parked_time(base, self.position).isoformat()
        state = {"type": "SCHEDULED", "name": PARKED_STATE, "state_details": {"scheduled_time": when}}
        return {**self.body, "state": state}


def is_cancel_new(deployment: DeploymentResponse) -> bool:
    """Whether Prefect cancels runs of this deployment that find no slot."""
    options = deployment.concurrency_options
    return options is not None and str(getattr(options.collision_strategy, "value", "")) == "CANCEL_NEW"


class Preparer:
    """Turns rows into prepared runs, one at a time, remembering the keys it has seen.

    Args:
        deployment: whose queue.
        submission_key: what the keys of the runs are made of.
        version: of this package, for the label.
        most_parameter_bytes: the server's limit for the parameters of one run; 0 is none.

    Raises:
        ValueError: the submission key will not do.
    """

    def __init__(
        self, deployment: DeploymentResponse, submission_key: str, version: str, most_parameter_bytes: int = 0
    ) -> None:
        reason = bad_submission_key(submission_key)
        if reason is not None:
            raise ValueError(f"The submission key {shortened(repr(submission_key))} {reason}.")
        self._deployment = deployment
        self._submission_key = submission_key
        self._version = version
        self._most_parameter_bytes = most_parameter_bytes
        self._own_keys: dict[str, int] = {}
        self._schema_problem = _schema_check(deployment)

    def prepare(self, row: object, position: int) -> PreparedRun:
        """Check one row.

        Raises:
            InvalidRun: what is wrong with it.
        """
        try:
            return self._prepared(_as_request(row, position), position)
        except RecursionError as error:
            raise InvalidRun(position, TOO_DEEP) from error

    def _prepared(self, request: RunRequest, position: int) -> PreparedRun:
        if isinstance(request.tags, str):
            raise InvalidRun(position, f"its tags are one text, {request.tags!r}; give a tuple of texts.")
        tag_count = len({*self._deployment.tags, *request.tags, PARKED_TAG})
        if tag_count > MOST_TAGS:
            raise InvalidRun(position, f"it has {tag_count} tags with its deployment's; {MOST_TAGS} are the most.")
        key = request.idempotency_key
        if key is None:
            key = f"{self._deployment.id}/{self._submission_key}/{position}"
        elif key in self._own_keys:
            raise InvalidRun(position, f"its idempotency key {key!r} is also that of run {self._own_keys[key]}.")
        else:
            self._own_keys[key] = position
        labels = {
            **request.labels,
            SUBMISSION_LABEL: self._submission_key,
            POSITION_LABEL: position,
            VERSION_LABEL: self._version,
        }
        body = _as_json(request, key, labels, position)
        reason = _unsendable_part(request, body)
        if reason is not None:
            raise InvalidRun(position, f"a text or number in it {reason}.")
        reason = _too_long_part(request) or too_large(body["parameters"], self._most_parameter_bytes)
        if reason is not None:
            raise InvalidRun(position, reason)
        reason = self._schema_problem(body["parameters"])
        if reason is not None:
            raise InvalidRun(position, reason)
        return PreparedRun(position, key, body, request.idempotency_key is not None)


def _as_request(row: object, position: int) -> RunRequest:
    if isinstance(row, RunRequest):
        return row
    if isinstance(row, Mapping):
        return RunRequest(parameters=cast("Mapping[str, Any]", row))
    raise InvalidRun(position, f"it is a {type(row).__name__}, neither a mapping of parameters nor a RunRequest.")


def _as_json(
    request: RunRequest, key: str, labels: Mapping[str, str | int | float | bool], position: int
) -> dict[str, Any]:
    try:
        given = DeploymentFlowRunCreate(
            parameters=dict(request.parameters),
            context=dict(request.context),
            tags=[*request.tags, PARKED_TAG],
            idempotency_key=key,
            labels=dict(labels),
        )
        if request.name is not None:
            given.name = request.name
        if request.job_variables is not None:
            given.job_variables = dict(request.job_variables)
        return given.model_dump(mode="json", exclude_unset=True)
    except (ValueError, TypeError) as error:
        if any(mark in str(error) for mark in OF_DEPTH):
            raise InvalidRun(position, TOO_DEEP) from error
        # Pydantic's own message goes on for lines; its first says what and where.
        raise InvalidRun(position, f"it cannot be sent as JSON: {str(error).splitlines()[0]}.") from error


def _unsendable_part(request: RunRequest, body: Mapping[str, Any]) -> str | None:
    """Why something that is asked for cannot be sent or kept; None if all of it can.

    On the way to JSON a NaN turns into null. So what was given is looked at too, and, for what hides in models and
    dataclasses, the same made into plain values another way, in which a NaN stays one.
    """
    given = [request.parameters, request.context, request.job_variables]
    try:
        plain = to_jsonable_python(given, inf_nan_mode="constants")
    except ValueError:
        plain = None  # What a row becomes as JSON is there already; this was one more look.
    return unsendable(body) or unsendable(given) or unsendable(plain)


def _too_long_part(request: RunRequest) -> str | None:
    """Which text that the database indexes is too long for that; None if none is."""
    texts = [("idempotency key", request.idempotency_key), ("name", request.name)]
    for what, text in [*texts, *(("tag", tag) for tag in request.tags)]:
        reason = None if text is None else too_long(text)
        if reason is not None:
            return f"its {what} {reason}."
    return None


def _schema_check(deployment: DeploymentResponse) -> Callable[[Mapping[str, Any]], str | None]:
    """A check of parameters against the deployment's schema, compiled once.

    Source: the server validates the deployment's own parameters updated by the run's, without format checks.
    """
    schema = deployment.parameter_openapi_schema
    if not deployment.enforce_parameter_schema or not schema:
        return lambda parameters: None
    names = None if schema == UNKNOWN_SCHEMA else cast("dict[str, Any] | None", schema.get("properties"))
    # Here, since it costs as much again as all else that is imported, and only a submitter checks parameters.
    from prefect.utilities.schema_tools.validation import preprocess_schema

    iter_errors = cast("Any", Draft202012Validator(preprocess_schema(cast("Any", schema)))).iter_errors
    defaults = deployment.parameters

    def check(parameters: Mapping[str, Any]) -> str | None:
        merged = {**defaults, **parameters}
        unknown = None if names is None or TEMPLATE_MARK in merged else _unknown_parameter(merged, names)
        if unknown is not None:
            return unknown
        if TEMPLATE_MARK in repr(merged):
            return None
        error = cast("ValidationError | None", best_match(iter_errors(merged)))
        if error is None:
            return None
        field = ".".join(str(part) for part in cast("Iterable[object]", error.absolute_path))
        where = f"parameter {field!r}: " if field else "its parameters do not fit the flow: "
        return f"{where}{error.message}."

    return check


def _unknown_parameter(parameters: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Why a name among the parameters will not do; None if the flow has them all.

    Source: the server lets such a run in, and it crashes as it starts, whatever the flow: what `**kwargs` takes is sent
    under the name `kwargs` (``prefect.utilities.callables.parameters_to_args_kwargs``).
    """
    for name in parameters:
        if name not in names:
            known = ", ".join(names) or "none"
            near = difflib.get_close_matches(name, names, n=1)
            return f"the flow has no parameter {name!r}; it has {known}." + "".join(
                f" Did you mean {other!r}?" for other in near
            )
    return None
