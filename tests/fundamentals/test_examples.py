"""Every example in the papers is run, and what they show as output is what comes out."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.schemas.automations import AutomationCore
from prefect.events.schemas.events import Resource
from prefect.events.schemas.events import ResourceSpecification as Specification

from ordered_queue import park_sync
from ordered_queue._calls import PROMOTED_MESSAGE
from ordered_queue.cli import app, main
from ordered_queue.embedded import stop
from tests.conftest import ROOT
from tests.fundamentals.papers import Block, blocks, shell_lines
from tests.server.deployed import Deployed, wait_until

PYTHON = blocks("python")
AUTOMATIONS = [block for block in blocks("json") if block.directive.startswith("automation")]
RESOURCE_ID = "prefect.resource.id"

FILES = {"tables.jsonl": '{"table": "x"}\n{"table": "y"}\n'}
"""Files that the examples assume their reader has."""

DIRECTIVES = ("run", "serve")


@dataclass(frozen=True)
class Project:
    """A reader's folder: everything saved that the papers say to save, and the scripts run.

    Attributes:
        folder: where.
        outputs: what each script printed.
    """

    folder: Path
    outputs: dict[str, str]


@pytest.fixture(scope="module")
def project(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with SyncPrefectClient(server.api_url) as client:
        client.create_work_pool(WorkPoolCreate(name="local", type="ordered-process"))
    for name, content in FILES.items():
        (folder / name).write_text(content)
    outputs = {}
    for block in PYTHON:
        if block.file_name is None:
            continue
        (folder / block.file_name).write_text(block.text)
        if block.directive.endswith("; run"):
            command = [sys.executable, block.file_name]
            result = subprocess.run(
                command, cwd=folder, env=server.env, capture_output=True, text=True, timeout=60, check=False
            )
            assert result.returncode == 0, result.stderr
            outputs[block.file_name] = result.stdout
    return Project(folder, outputs)


@pytest.fixture
def in_project(project, client, monkeypatch):
    """The test's process is where the reader is, and talks to the reader's server."""
    monkeypatch.chdir(project.folder)
    return project


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_python_example_says_how_it_is_run(block: Block):
    assert block.directive.split("; ")[-1] in DIRECTIVES


def test_a_script_prints_what_the_readme_shows_when_it_is_run(project):
    shown = {block.directive.removeprefix("output: "): block.text for block in blocks("text") if block.directive}

    assert project.outputs == shown
    assert shown


@pytest.mark.parametrize("block", [block for block in PYTHON if block.directive == "run"], ids=str)
def test_a_python_example_works_when_it_is_run(in_project, block: Block):
    # A file of its own, as its reader has one: Prefect looks for the source of a flow.
    source = in_project.folder / f"example_{block.line}.py"
    source.write_text(block.text)

    exec(compile(block.text, source, "exec"), {"__name__": source.stem})  # noqa: S102  # our own papers


def test_the_commands_of_the_papers_work_when_they_are_run_in_order(in_project, capsys):
    lines = [line for line in shell_lines() if line.startswith("ordered-queue ")]

    for line in lines:
        words, _, _ = line.partition(" > ")  # what a shell does with the output is no matter of ours
        code = main(shlex.split(words)[1:])
        # The doctor says with 1 that it found something, which on a server that other tests use it may.
        assert code in ((0, 1) if words.startswith("ordered-queue doctor") else (0,)), (
            f"{line}: {capsys.readouterr().err}"
        )

    told = capsys.readouterr().out
    assert "Cancelled 2 runs." in told
    assert re.search(r"Handed [1-9]\d* runs? back to Prefect\.", told)
    assert (in_project.folder / "flows" / "refresh.py").read_text() == (ROOT / "flows" / "refresh.py").read_text()


def test_a_command_of_another_program_is_one_that_is_known_to_work():
    others = [line for line in shell_lines() if not line.startswith("ordered-queue ")]
    deployment = yaml.safe_load((ROOT / "deployments.yaml").read_text())["deployments"][0]
    zombies = yaml.safe_load((ROOT / "crash-zombies.yaml").read_text())["automations"]
    automations = [each["name"] for each in (*deployment["triggers"], *zombies)]
    flow_name = re.search(r'@flow\(name="([^"]+)"', (ROOT / "flows" / "refresh.py").read_text()).group(1)
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {
        "pip install .",
        "export PREFECT_API_URL=http://127.0.0.1:4200/api",
        "pip uninstall ordered-queue",
        # tests/server/test_deployments_yaml.py
        "prefect --no-prompt deploy --prefect-file deployments.yaml --all --pool local",
        "prefect work-pool create local --type ordered-process",  # tests/server/test_ordered_worker.py
        "prefect worker start --pool local",  # the same
        *(f"prefect automation create --from-file {name}" for block in AUTOMATIONS if (name := block.file_name)),
        f"prefect deployment delete {flow_name}/{deployment['name']}",
        "prefect automation create --from-file crash-zombies.yaml",  # tests/server/test_crash_zombies.py
        *(f'prefect automation delete "{name}"' for name in automations),
        *(f"make {target}" for target in targets),
    }

    assert set(others) <= known
    assert sum(line.startswith("prefect automation delete") for line in others) == len(automations)


def test_a_service_of_the_papers_starts_a_command_as_the_command_line_has_it():
    units = [
        line.split("=", 1)[1] for block in blocks("ini") for line in block.text.splitlines() if "ExecStart=" in line
    ]
    services = [each for block in blocks("yaml") for each in yaml.safe_load(block.text)["services"].values()]
    commands = [shlex.split(command) for command in [*units, *(service["command"] for service in services)]]

    for program, *arguments in commands:
        assert program.endswith("ordered-queue")
        app.parse_args(arguments, exit_on_error=False)

    assert [arguments[1] for arguments in commands] == ["watch", "watch"]


def test_serve_of_the_readme_runs_what_was_parked_when_it_is_started(in_project, client, server):
    found = client.read_deployment_by_name("load/nightly")
    queue = Deployed(client, found.id, "load/nightly")
    first, second = park_sync(queue.id, [{"table": "x"}, {"table": "y"}], client=client)
    name = next(block.file_name for block in PYTHON if block.directive.endswith("; serve"))
    env = {**server.env, "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    with (in_project.folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, name], cwd=in_project.folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until(lambda: queue.state_of(first) == "Completed", 60, "the end of the first run")
            wait_until(lambda: "Late" in queue.history(second), 10, "the promotion of the second")
        finally:
            stop(process)


def trigger_of(block: Block):
    """The trigger that a block is, or that the automation in it has."""
    shown = json.loads(block.text)
    return shown.get("trigger", shown)


@pytest.mark.parametrize("block", AUTOMATIONS, ids=str)
def test_a_trigger_of_the_papers_is_accepted_when_an_automation_is_made_of_it(client, block: Block):
    trigger = trigger_of(block)
    whole = json.loads(block.text) if block.file_name else {"name": "mine", "trigger": trigger, "actions": []}
    # As `prefect automation create` does.
    automation = AutomationCore.model_validate(whole)

    made = client.read_automation(client.create_automation(automation)).model_dump(mode="json")

    assert made["name"] == whole["name"]
    assert made["trigger"].items() >= {**trigger, "within": made["trigger"]["within"]}.items()
    client.request("DELETE", f"/automations/{made['id']}")


@pytest.mark.parametrize(("message", "is_alerted"), [(PROMOTED_MESSAGE, False), (None, True), ("Not started", True)])
def test_the_alert_that_tells_by_message_leaves_out_promoted_runs_only(message, is_alerted):
    match = next(trigger["match"] for trigger in map(trigger_of, AUTOMATIONS) if trigger["within"] == 0)
    labels = {RESOURCE_ID: "prefect.flow-run.1", "prefect.state-message": message or ""}

    assert Specification.model_validate(match).matches(Resource.model_validate(labels)) is is_alerted
