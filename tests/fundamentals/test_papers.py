"""The papers name only what is there, and all that is there."""

import re
import shlex
from datetime import timedelta

import pytest
from pydantic import TypeAdapter

import ordered_queue
from ordered_queue._steps.server import OLDEST_SERVER
from ordered_queue.cli import app
from ordered_queue.settings import OrderedQueueSettings
from tests.conftest import ROOT
from tests.fundamentals.papers import PAPERS, table

README = ROOT / "README.md"
DECISIONS = ROOT / "docs" / "decisions"
MEASURED_ON = "3.9.1"
FOLDERS = ("ordered_queue", "tests", "docs", "flows", "demo", "bench")


def as_id(paper):
    return str(paper.relative_to(ROOT))


def as_duration(cell):
    return TypeAdapter(timedelta).validate_python(cell.strip("`"))


@pytest.mark.parametrize("paper", PAPERS, ids=as_id)
def test_a_paper_links_to_files_that_exist(paper):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", paper.read_text())
    missing = [target for target in targets if "://" not in target and not (paper.parent / target).exists()]

    assert missing == []


@pytest.mark.parametrize("paper", PAPERS, ids=as_id)
def test_a_paper_names_files_that_exist(paper):
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", paper.read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", ordered_queue.__all__)
def test_a_public_name_is_in_the_reference(name):
    assert f"`{name}`" in (ROOT / "docs" / "reference.md").read_text()


def test_the_table_of_settings_is_that_of_the_code():
    def bound(field, kind):
        return next(value for item in field.metadata if (value := getattr(item, kind, None)) is not None)

    prefix = OrderedQueueSettings.model_config["env_prefix"]
    expected = {
        name: (f"{prefix}{name}".upper(), field.default, bound(field, "ge"), bound(field, "le"))
        for name, field in OrderedQueueSettings.model_fields.items()
    }

    found = {}
    for name, variable, _, default, interval, _ in table(README, "name"):
        lowest, highest = interval.split(" to ")
        durations = (as_duration(default), as_duration(lowest), as_duration(highest))
        found[name.strip("`")] = (variable.strip("`"), *durations)

    assert found == expected


def test_the_table_of_commands_is_that_of_the_command_line():
    rows = [shlex.split(row[0].strip("`").replace("[DEPLOYMENT]", "DEPLOYMENT")) for row in table(README, "command")]

    for words in rows:
        app.parse_args([word.replace("NAME=VALUE", "a=1") for word in words[1:]], exit_on_error=False)

    assert {words[1] for words in rows} == {name for name in app if not name.startswith("-")}


def test_the_index_of_decisions_lists_every_page():
    pages = sorted(page.name for page in DECISIONS.glob("0*.md"))

    assert re.findall(r"\]\((0[^)]+)\)", (DECISIONS / "README.md").read_text()) == pages


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("000*.md")), ids=as_id)
def test_a_decision_says_what_was_considered_and_what_it_costs(page):
    headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)

    assert [heading for heading in headings if heading != "Figures"] == [
        "Context",
        "Choice",
        "What else",
        "What it costs",
    ]


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/reference.md", "docs/decisions/README.md"])
def test_a_paper_names_the_oldest_server_that_the_code_asks_for(name):
    versions = set(re.findall(r"\b3\.\d+\.\d+\b", (ROOT / name).read_text())) - {MEASURED_ON}

    assert versions == {OLDEST_SERVER}


def test_the_changelog_tells_of_this_version():
    assert f"## [{ordered_queue.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
