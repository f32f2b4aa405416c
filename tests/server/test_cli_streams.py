"""The command on the streams that a shell may give it: closed, full, broken, ASCII only, or a terminal."""

import os
import pty
import re
import subprocess
import sys
import threading
from uuid import UUID

import pytest

COMMAND = [sys.executable, "-m", "ordered_queue.cli"]

SEVERAL = """
import sys
from pathlib import Path
from ordered_queue.cli import main

queue, *commands = sys.argv[1:]
codes = [main([*command.split(), queue]) for command in commands]
Path("codes").write_text(" ".join(map(str, codes)))
"""
"""Several commands about one queue, each with its own streams' troubles, in one process: starting one takes seconds."""

ROWS = 250
TYPED = "".join(f'{{"number": {number}}}\n' for number in range(ROWS))


@pytest.fixture
def shell(server, tmp_path):
    """Run the command through a shell, with redirections; its exit code, output and errors."""

    def run(redirections, *arguments, typed="", command=COMMAND, **settings):
        script = f'"$@" {redirections}'
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *command, *map(str, arguments)],
            env={**server.env, **settings},
            cwd=tmp_path,
            input=typed,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert "Exception ignored" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def shell_for_several(shell, tmp_path):
    """Run commands about one queue in one process; their exit codes, and all output and errors."""

    def run(redirections, queue_name, *commands, **settings):
        code, out, err = shell(redirections, queue_name, *commands, command=[sys.executable, "-c", SEVERAL], **settings)
        assert code == 0, err
        return [int(each) for each in (tmp_path / "codes").read_text().split()], out, err

    return run


def count_of_runs(queue):
    body = {"deployments": {"id": {"any_": [str(queue.id)]}}}
    return queue.client.request("POST", "/flow_runs/count", json=body).json()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_park_parks_all_and_is_content_when_nobody_wants_its_output(shell, deploy, closed):
    queue = deploy(limit=1)

    code, out, err = shell(closed, "park", queue.name, "--param", "number=1")

    assert code == 0, err
    assert count_of_runs(queue) == 1
    assert (">&-" in closed.replace("2>&-", "")) == (out == "")


def test_each_command_works_on_closed_streams(shell_for_several, deploy):
    queue = deploy(limit=1)

    codes, out, _ = shell_for_several("<&- >&- 2>&-", queue.name, "sweep", "ls", "doctor", "unpark")

    assert (codes, out) == ([0] * 4, "")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_is_no_trouble_on_closed_streams(shell, option):
    assert shell("<&- >&- 2>&-", option)[0] == 0


def test_park_says_so_when_it_is_to_read_a_closed_standard_input(shell, deploy):
    queue = deploy(limit=1)

    code, out, err = shell("<&-", "park", queue.name, "--params-file", "-")

    assert (code, out) == (2, "")
    assert err == "Error: Standard input is closed; there is nothing to read.\n"


def test_park_parks_all_and_says_that_the_disk_is_full(shell, deploy):
    queue = deploy(limit=1)

    code, _, err = shell(">/dev/full", "park", queue.id, "--params-file", "-", typed=TYPED)

    assert code == 1
    assert "No space left on device" in err
    assert count_of_runs(queue) == ROWS


def test_park_parks_all_when_the_reader_of_its_output_went_away(server, deploy, tmp_path):
    """So many ids are more than Python holds back: it meets the broken pipe in the middle of it all."""
    queue = deploy(limit=1)
    (tmp_path / "runs.jsonl").write_text(TYPED)
    command = [*COMMAND, "park", queue.name, "--params-file", str(tmp_path / "runs.jsonl")]

    with subprocess.Popen(command, env=dict(server.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read().decode()
        code = process.wait(120)

    assert code == 141
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert count_of_runs(queue) == ROWS


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_are_shown_as_far_as_the_output_can_show_them(shell_for_several, deploy, client, encoding):
    queue = deploy(limit=1, name="wüste-表")
    queue.park(2, submission_key="größe")
    name = queue.name.replace("/queue", "/wüste-表")

    commands = ["ls", "ls --json", "sweep", "park", "unpark", "doctor"]
    codes, _, err = shell_for_several("", name, *commands, PYTHONIOENCODING=encoding)

    # The doctor's, the last, tells of what it found, not of trouble with its output.
    assert codes == [0, 0, 0, 0, 0, 1], err


def test_a_name_is_escaped_where_ascii_is_all_that_can_be_shown(shell, deploy):
    queue = deploy(limit=1, name="wüste")
    queue.park(1)

    _, out, _ = shell("", "sweep", queue.id, PYTHONIOENCODING="ascii")

    assert out == f"{queue.name.replace('/queue', '/w')}\\xfcste: promoted 0\n"


def test_park_shows_its_progress_on_a_terminal_and_prints_the_ids_for_a_program(server, deploy, tmp_path):
    queue = deploy(limit=1)
    file = tmp_path / "runs.jsonl"
    file.write_text(TYPED)
    ours, theirs = pty.openpty()
    shown = []

    def watch():
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the last writer is gone
                return
            shown.append(piece)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        done = subprocess.run(
            [*COMMAND, "park", queue.name, "--params-file", str(file)],
            env={**server.env, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"},
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=120,
            check=False,
        )
    finally:
        os.close(theirs)
        watching.join(30)
        os.close(ours)

    screen = b"".join(shown).decode()
    assert done.returncode == 0, screen
    assert len([UUID(line) for line in done.stdout.decode().split()]) == ROWS
    assert "Parking" in screen
    # How far it is, of how many: the whole file was counted as it was checked.
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    assert re.search(r"\b(100|200|250)/250\b", plain), plain
