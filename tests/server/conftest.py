"""What tests of a queue on a real server share: the doctor's answer, and a later hour."""

import importlib
import json
from datetime import timedelta

import pytest

import ordered_queue._drive
from ordered_queue.cli import main


@pytest.fixture
def doctor(client, capsys, monkeypatch):
    """Call the command with ``--json``; its exit code and the findings by kind (the clock's and the poller's aside)."""

    # What was made by hand is still so a while later.
    monkeypatch.setattr(importlib.import_module("ordered_queue.cli.doctor"), "LOOK_AGAIN_SECONDS", 0)

    def call(*arguments):
        capsys.readouterr()
        code = main(["doctor", *map(str, arguments), "--json"])
        out, _ = capsys.readouterr()
        return code, {found["kind"]: found for found in json.loads(out)}

    return call


@pytest.fixture
def later(monkeypatch):
    """Let the steps believe that it is some minutes later."""
    real = ordered_queue._drive._Watch._answer

    def shift(minutes):
        def answer(self, **known):
            made = real(self, **known)
            return type(made)(**{**vars(made), "now": made.now + timedelta(minutes=minutes)})

        monkeypatch.setattr(ordered_queue._drive._Watch, "_answer", answer)

    return shift
