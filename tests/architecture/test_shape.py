"""The shape of the code: imports go one way, the pure part is pure, files and functions stay small."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "ordered_queue"

# Each may import from those above it only.
LAYERS = [
    ["_version", "errors", "_secrets", "sendable"],
    ["runs"],
    ["ordering"],
    ["promotion", "counting", "submission", "_doctor.findings"],
    ["_doctor.observation", "repetition", "suitability"],
    ["_doctor.diagnosis_of_runs", "_doctor.diagnosis_of_slots"],
    ["_doctor.diagnosis"],
    ["settings"],
    ["_calls"],
    ["_doctor.calls"],
    ["_steps.effects"],
    ["_steps.server", "_steps.deployments"],
    ["_steps.pages"],
    ["_steps.observe", "_steps.set_aside"],
    ["_steps.fill", "_steps.chunk"],
    ["_steps.sweep", "_steps.park", "_steps.ending"],
    ["_steps.queue", "_doctor.look"],
    ["_doctor.remedies", "_steps.adopt"],
    ["_steps", "_doctor"],
    ["_reports"],
    ["_attempt"],
    ["_drive"],
    ["_fills"],
    ["api"],
    ["hooks", "_events", "_prefect_runner"],
    ["_quick_poll"],
    ["runner", "worker", "after_cancellation", "watcher"],
    ["testing", "embedded"],
    ["__init__"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
PURE = ["runs", "sendable", "ordering", "promotion", "counting", "submission", "_calls"]
PURE += ["repetition", "suitability", "_doctor/findings", "_doctor/observation", "_doctor/diagnosis_of_runs"]
PURE += ["_doctor/diagnosis_of_slots", "_doctor/diagnosis", "_doctor/calls"]
FOLDERS = {"_steps", "_doctor"}
"""Their ``__init__`` holds no code: what is in them has ranks of its own."""
IMPURE = {"time", "random", "os", "socket", "anyio", "asyncio", "httpx", "logging", "pendulum", "uuid4"}
MOST_LINES = 260
MOST_FUNCTION_LINES = 45

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[0] == "cli":
        return "cli"
    return ".".join(part for part in parts if part != "__init__") or "__init__"


def imports_of(path: Path):
    """The modules that a file imports, and for our own the names with them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_module(name: str) -> str | None:
    if not name.startswith("ordered_queue."):
        return None
    inner = name.removeprefix("ordered_queue.")
    for candidate in (inner, inner.rsplit(".", 1)[0]):
        if candidate.split(".")[0] == "cli":
            return "cli"
        if candidate in RANK:
            return candidate
    return None


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_file_imports_only_from_above_it(path):
    me = module_of(path)
    below = {
        other
        for other in map(own_module, imports_of(path))
        if other and other != me and RANK[other] >= RANK[me] and other not in FOLDERS
    }

    assert me in RANK, f"say in LAYERS where {me} belongs"
    assert not below


@pytest.mark.parametrize("name", PURE)
def test_the_pure_part_knows_no_client_clock_or_settings(name):
    imported = {part for module in imports_of(PACKAGE / f"{name}.py") for part in module.split(".")}

    assert not imported & IMPURE
    assert not {"orchestration", "settings", "context"} & imported
    assert ".now(" not in (PACKAGE / f"{name}.py").read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_one_idea_long(path):
    source = path.read_text()
    functions = [
        (node.name, (node.end_lineno or 0) - node.body[0].lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert len(source.splitlines()) <= MOST_LINES
    assert [name for name, lines in functions if lines > MOST_FUNCTION_LINES] == []


def test_no_step_makes_a_request_in_a_finally():
    for path in (path for folder in FOLDERS for path in (PACKAGE / folder).glob("*.py")):
        tries = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Try)]
        assert not any(node.finalbody for node in tries), path
