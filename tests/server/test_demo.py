"""The demo as a user runs it. It brings its own server."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHOLE_DEMO_SECONDS = 300
STOP_SECONDS = 60
HAS_PROC = Path("/proc/self/environ").exists()


@pytest.fixture
def start_demo(tmp_path):
    """Start a demo in a folder of the test's own; whatever the test does, it is gone at the end."""
    demos = []

    def start(root: Path = ROOT) -> subprocess.Popen[str]:
        demo = subprocess.Popen(
            [sys.executable, "-u", "-m", "demo", "--folder", str(tmp_path)],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        demos.append(demo)
        return demo

    yield start
    for demo in demos:
        with suppress(ProcessLookupError):
            demo.terminate()
        try:
            demo.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            demo.kill()
            demo.wait()
        demo.stdout.close()
    for pid in processes_of(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_of(folder: Path) -> set[int]:
    """The processes whose `PREFECT_HOME` is in a folder. One that has ended has no environment any more."""
    mark = f"PREFECT_HOME={folder}{os.sep}".encode()
    found = set()
    for each in Path("/proc").glob("[0-9]*") if HAS_PROC else ():
        with suppress(OSError):
            if mark in (each / "environ").read_bytes():
                found.add(int(each.name))
    return found


def read_until(demo: subprocess.Popen[str], text: str) -> str:
    """What the demo prints up to the first line with `text`, and that line."""
    giving_up = threading.Timer(WHOLE_DEMO_SECONDS, demo.terminate)
    giving_up.start()
    try:
        output = ""
        for line in demo.stdout:
            output += line
            if text in line:
                return output
    finally:
        giving_up.cancel()
    pytest.fail(f"the demo ended before it printed {text!r}:\n{output}")


def wait_until(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} took more than {seconds} s"
        time.sleep(0.1)


def test_demo_shows_order_and_limit_held_when_it_is_run(start_demo, tmp_path):
    demo = start_demo()

    output, _ = demo.communicate(timeout=WHOLE_DEMO_SECONDS)

    assert demo.returncode == 0, output
    assert re.search(r"^out-of-order pairs +0 *$", output, re.MULTILINE), output
    assert "Order and limit held." in output
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == set()


def test_demo_exits_with_1_and_says_what_broke_when_order_and_limit_did(start_demo, tmp_path_factory):
    """The demo as it is, and its own server; only what it serves takes the runs in another order, all at once."""
    root = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "demo", root / "demo")
    (root / "flows").mkdir()
    shutil.copy(ROOT / "tests" / "server" / "out_of_order.py", root / "flows" / "example.py")

    demo = start_demo(root)
    output, _ = demo.communicate(timeout=WHOLE_DEMO_SECONDS)

    assert demo.returncode == 1, output
    assert re.search(r"^Broken: \d+ pairs of runs started out of order\.$", output, re.MULTILINE), output
    assert "Broken: 12 runs ran at once; the limit is 2." in output
    assert "Order and limit held." not in output
    assert "Logs and database are kept in" in output


@pytest.mark.skipif(not HAS_PROC, reason="looks for processes in /proc")
def test_demo_leaves_nothing_behind_when_it_is_stopped(start_demo, tmp_path):
    demo = start_demo()
    read_until(demo, "Queue of")
    # A server, the serving process, and a run of it.
    wait_until(lambda: len(processes_of(tmp_path)) >= 3, STOP_SECONDS, "starting a run")

    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=STOP_SECONDS)

    assert demo.returncode == 128 + signal.SIGINT, output
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not processes_of(tmp_path), STOP_SECONDS, "the end of the last process")
