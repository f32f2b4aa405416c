"""`ordered-queue doctor`: what is wrong with a queue, and what can be put right."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any
from uuid import UUID

import pendulum
from cyclopts import Parameter
from prefect.client.orchestration import SyncPrefectClient

from ordered_queue import _calls
from ordered_queue._doctor import look as _looking
from ordered_queue._doctor import remedies as _remedies
from ordered_queue._doctor.diagnosis import diagnose, diagnose_all
from ordered_queue._doctor.findings import Finding, Kind, needs_attention
from ordered_queue._doctor.remedies import Outcome
from ordered_queue._drive import drive_sync
from ordered_queue._steps.deployments import find_deployment
from ordered_queue._steps.effects import ask
from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import CommandFailed, Misused, in_one_line, printable
from ordered_queue.cli.names import full_names
from ordered_queue.cli.queue import Yes
from ordered_queue.cli.terminal import is_confirmed, put, say
from ordered_queue.errors import DeploymentNotFound, OrderedQueueError, RequestFailed

LOOK_AGAIN_SECONDS = 5.0
"""Whoever fills has filled a free slot by then: a hook, the watcher, a submission."""


class CouldNotLook(CommandFailed):
    """The server, or some queue of it, could not be looked at: that is no clean bill of health."""

    exit_code = 3


def doctor(
    deployment: str | None = None,
    /,
    *,
    fix: Annotated[bool, Parameter(negative="")] = False,
    yes: Yes = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Say what is wrong with every queue, or one: what, since when, what it does, and what to do about it.

    The exit code is 0 if nothing was found that needs anybody, 1 if something remains, 2 if misused, 3 if it could not
    look.

    Args:
        deployment: "flow/deployment", or an id; every queue that is in use if left out.
        fix: Put right what is safe to put right, after asking: a counter that leaked, and runs whose lease is gone.
        yes: Do not ask.
        as_json: Print one JSON list of objects.
    """
    try:
        with connected() as client:
            findings = _look(client, deployment)
            found = {finding.deployment_id for finding in findings if finding.deployment_id is not None}
            names = drive_sync(client, full_names(sorted(found)))
            if not as_json:
                _show(findings, names)
            outcomes = _fix(client, findings, yes) if fix else {}
    except BrokenPipeError:
        raise  # Whoever read the findings went away; `main` knows what that means.
    except DeploymentNotFound as error:
        raise Misused(str(error)) from error
    except (OrderedQueueError, CommandFailed, OSError) as error:
        raise CouldNotLook(str(CommandFailed.of(error))) from error
    if as_json:
        put(json.dumps([_as_object(finding, names, outcomes.get(finding)) for finding in findings], indent=2))
    elif not findings:
        say("Nothing was found.")
    remaining = [finding for finding in findings if finding not in outcomes or not outcomes[finding].is_fixed]
    return 1 if needs_attention(remaining) else 0


def _look(client: SyncPrefectClient, deployment: str | None) -> tuple[Finding, ...]:
    """Everything that is to be said.

    Raises:
        CouldNotLook: at some queue; the others are not told of either, lest a part pass for the whole.
    """
    answer = drive_sync(client, ask(_calls.server_version(), _looking.PATIENCE))
    clock_difference = answer.now - datetime.now(timezone.utc)
    if deployment is not None:
        found, _ = drive_sync(client, find_deployment(deployment))
        return diagnose_all(clock_difference, (), [_examine(client, found.id)])
    orphans = drive_sync(client, _looking.find_orphans())
    queues: list[tuple[Finding, ...]] = []
    for deployment_id in drive_sync(client, _looking.list_queues_in_use()):
        try:
            queues.append(_examine(client, deployment_id))
        except RequestFailed as error:
            if error.status != 404:  # Deleted since it was listed.
                raise
    return diagnose_all(clock_difference, orphans, queues)


def _examine(client: SyncPrefectClient, deployment_id: UUID) -> tuple[Finding, ...]:
    """What is to be said of one queue. A slot that is free for the moment between two runs is not worth a word."""
    findings = diagnose(drive_sync(client, _looking.look(deployment_id)))
    if any(finding.kind is Kind.SLOT_UNFILLED for finding in findings):
        time.sleep(LOOK_AGAIN_SECONDS)
        findings = diagnose(drive_sync(client, _looking.look(deployment_id)))
    return findings


def _fix(client: SyncPrefectClient, findings: tuple[Finding, ...], yes: bool) -> dict[Finding, Outcome]:
    """Apply the remedies, if that is wanted, and tell what came of each."""
    fixable = [finding for finding in findings if finding.remedy is not None]
    if not fixable:
        say("There is nothing that --fix could do.")
        return {}
    for finding in fixable:
        say(in_one_line(f"--fix would {finding.remedy}."))
    if not is_confirmed("Do it?", yes):
        say("Not confirmed; nothing was changed.")
        return {}
    outcomes: dict[Finding, Outcome] = {}
    for finding in fixable:
        try:
            outcome = drive_sync(client, _remedies.apply(finding))
        except RequestFailed as error:
            outcome = Outcome(False, f"it is not known what was done: {error}")
        outcomes[finding] = outcome
        say(in_one_line(f"{'Fixed' if outcome.is_fixed else 'Not fixed'}: {finding.kind.code}: {outcome.words}."))
    return outcomes


def _show(findings: tuple[Finding, ...], names: dict[UUID, str]) -> None:
    for finding in findings:
        kind = finding.kind
        where = "" if finding.deployment_id is None else f" {_name(finding, names)}:"
        since = "" if finding.age is None else f", for {_in_words(finding.age)}"
        put(printable(f"{kind.severity.value} {kind.code}:{where} {finding.what}{since}."))
        for run_id in finding.flow_run_ids:
            put(f"    flow run: {run_id}")
        put(f"    effect: {kind.effect}")
        put(printable(f"    do: {finding.next_action}"))
        if finding.remedy is not None:
            put(printable(f"    --fix would: {finding.remedy}"))


def _name(finding: Finding, names: dict[UUID, str]) -> str:
    if finding.deployment_id is None:
        return ""
    return names.get(finding.deployment_id, str(finding.deployment_id))


def _in_words(age: timedelta) -> str:
    return pendulum.duration(seconds=max(0, int(age.total_seconds()))).in_words()


def _as_object(finding: Finding, names: dict[UUID, str], outcome: Outcome | None) -> dict[str, Any]:
    return {
        "kind": finding.kind.code,
        "severity": finding.kind.severity.value,
        "deployment": _name(finding, names) or None,
        "deployment_id": None if finding.deployment_id is None else str(finding.deployment_id),
        "flow_run_ids": [str(run_id) for run_id in finding.flow_run_ids],
        "what": finding.what,
        "since": None if finding.since is None else finding.since.isoformat(),
        "age_seconds": None if finding.age is None else round(finding.age.total_seconds()),
        "effect": finding.kind.effect,
        "next_action": finding.next_action,
        "fix": None if finding.remedy is None else str(finding.remedy),
        "fixed": None if outcome is None else outcome.is_fixed,
        "outcome": None if outcome is None else outcome.words,
    }
