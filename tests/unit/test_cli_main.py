"""What the command says without a server."""

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import __version__
from ordered_queue.cli import main

COMMANDS = ("park", "ls", "sweep", "cancel", "unpark", "watch", "init")


def test_the_command_tells_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_a_help(capsys, command):
    assert main([command, "--help"]) == 0
    assert f"ordered-queue {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["park"],
        ["park", "a/b", "--nonsense"],
        ["park", "a/b", "--param", "n"],
        ["park", "a/b", "--param", "n=1", "--params-file", "-"],
        ["park", "a/b", "--name", "x", "--params-file", "-"],
        ["park", "a/b", "--format", "csv"],
        ["park", "a/b", "--params-file", "-", "--format", "xml"],
        ["park", "a/b", "--params-file", "no-such-file.jsonl"],
        ["park", "a/b", "--params-file", "."],
        ["park", "a/b", "--submission-key", ""],
        ["ls", "a/b", "--limit", "0"],
        ["cancel"],
        ["cancel", "--submission", ""],
        ["init"],
    ],
)
def test_the_command_exits_with_2_and_one_line_when_it_is_misused(capsys, arguments):
    assert main(arguments) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["park", "a/b"], ["ls", "a/b"], ["sweep"], ["cancel", "--submission", "x"], ["unpark", "a/b"]]
)
def test_each_command_refuses_to_go_on_when_no_server_is_named(capsys, arguments):
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert main(arguments) == 1

    assert capsys.readouterr().err.startswith("Error: PREFECT_API_URL is not set")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:4200/api", "ftp://me:hunter22@host/api", "http://me:hunter22@host:nope/api", "http://"]
)
def test_the_command_keeps_the_password_to_itself_when_the_url_is_bad(capsys, url):
    with temporary_settings({PREFECT_API_URL: url}):
        assert main(["sweep"]) == 1

    assert capsys.readouterr().err == "Error: PREFECT_API_URL is not a valid http or https URL. Correct it.\n"
