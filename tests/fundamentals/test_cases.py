"""docs/cases.md has every case, and every test that it names is there."""

import ast
import re

import pytest

from tests.conftest import ROOT

CASES = ROOT / "docs" / "cases.md"
NAMES = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def cases() -> dict[int, str]:
    """The text of each case."""
    parts = re.split(r"^(\d+)\. ", CASES.read_text(), flags=re.MULTILINE)[1:]
    return {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}


def names_of_tests(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions) and node.name.startswith("test_")}


def test_every_case_is_there_once_and_in_order():
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", CASES.read_text(), re.MULTILINE)]

    assert numbers == list(range(1, 41))


@pytest.mark.parametrize("number", range(1, 41))
def test_a_case_names_tests_that_exist(number):
    named = NAMES.findall(cases()[number])

    assert named
    assert [(path, name) for path, name in named if name not in names_of_tests(path)] == []


def test_every_test_of_a_case_is_named():
    named = {name for _, name in NAMES.findall(CASES.read_text())}
    written = {
        name for path in (ROOT / "tests" / "server").glob("test_cases_*.py") for name in names_of_tests(str(path))
    }

    assert written - named == set()
