"""The lower bounds of our dependencies, the oldest Prefect server among them, run the queue once through.

`make test` builds an environment with exactly these versions; `through_the_queue.py` runs in it, with its own server.
"""

import subprocess

import pytest

from tests.conftest import ROOT

OLDEST = ROOT / ".venv-oldest"


@pytest.fixture(scope="module")
def oldest_python():
    python = OLDEST / "bin" / "python"
    assert python.exists(), "`make test` makes this environment; run that, or `make .venv-oldest/.installed`"
    return python


def test_every_lower_bound_is_what_is_installed(oldest_python):
    constraints = dict(line.split("==") for line in (OLDEST / "constraints.txt").read_text().split())
    script = "import sys, importlib.metadata as m; print([m.version(name) for name in sys.argv[1:]])"

    shown = subprocess.run([oldest_python, "-c", script, *constraints], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == str(list(constraints.values()))


def test_the_queue_works_on_the_oldest_versions(oldest_python, tmp_path):
    script = ROOT / "tests" / "smoke" / "through_the_queue.py"

    shown = subprocess.run([oldest_python, script, tmp_path], capture_output=True, text=True, check=False, cwd=ROOT)

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.splitlines()[-1] == "through the queue on Prefect 3.7.6"
