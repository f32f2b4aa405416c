"""Credentials with a stray character, as a mounted secret file brings them: the client's error shows the header."""

import subprocess
import sys
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, temporary_settings

from ordered_queue import RequestFailed, fill_free_slots_sync, hand_over_on_end, park_sync
from tests.conftest import ROOT

KEY = "pnu_topsecret123"


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\x00"], ids=repr)
def test_the_key_is_neither_logged_nor_raised(caplog, key, server):
    with temporary_settings(updates={PREFECT_API_URL: server.api_url, PREFECT_API_KEY: key}):
        with get_client(sync_client=True) as client:
            fill_free_slots_sync(client, uuid4())
        with pytest.raises(RequestFailed) as raised:
            park_sync("a/b", [{}])

    assert "Illegal header value" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\u00e9"], ids=repr)
def test_the_key_is_not_printed(key, server):
    done = subprocess.run(
        [sys.executable, "-m", "ordered_queue.cli", "sweep"],
        env={**server.env, "PREFECT_API_KEY": key},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert KEY not in done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("url", ["http://user:pa@ss:topsecret@127.0.0.1:1/api", "http://user:topsecret@host:abc/api"])
def test_the_password_of_a_url_is_not_logged(caplog, url):
    with temporary_settings(updates={PREFECT_API_URL: url}):
        hand_over_on_end(None, SimpleNamespace(deployment_id=uuid4(), id=uuid4()), None)

    assert "Could not fill" in caplog.text
    assert "topsecret" not in caplog.text
