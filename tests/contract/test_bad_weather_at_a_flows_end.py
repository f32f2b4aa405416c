"""G6: hooks and hand_over_slot return in time whatever the server does, and a bad setting harms no flow."""

import socket
import threading
import time
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from ordered_queue.hooks import hand_over_on_end
from tests.factories import FLOW_ID

PROMISED_SECONDS = 10


@pytest.fixture(autouse=True)
def no_waiting():
    """Here time passes as it does."""


@pytest.fixture
def black_hole():
    """A server that takes connections and does with them what the test says."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve(behave):
        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                threading.Thread(target=behave, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/api"

    yield serve
    listener.close()
    for connection in connections:
        connection.close()


def silence(connection):
    """Never answer."""


def trickle(connection):
    """Answer a byte at a time: no time-out of a read ever strikes."""
    try:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.2)
    except OSError:
        pass


def hang_up(connection):
    """Read the request and cut the connection."""
    connection.recv(65536)
    connection.close()


def end_a_run():
    """What the engine does; how long it took, and what is said of a fill that failed.

    A fill that was given up may still tell of its own failure later, so each is of a deployment of its own.
    """
    run = FlowRun(flow_id=FLOW_ID, deployment_id=uuid4())
    began = time.monotonic()
    hand_over_on_end(None, run, Completed())
    return time.monotonic() - began, f"Could not fill the queue of deployment {run.deployment_id}"


@pytest.mark.parametrize("behave", [silence, trickle, hang_up])
def test_a_flows_end_is_delayed_by_less_than_promised(black_hole, caplog, behave):
    with temporary_settings(updates={PREFECT_API_URL: black_hole(behave)}):
        took, failure = end_a_run()

    assert took < PROMISED_SECONDS
    assert caplog.text.count(failure) == 1


def test_a_flows_end_is_delayed_by_less_than_promised_when_nobody_listens(caplog):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with temporary_settings(updates={PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
        took, failure = end_a_run()

    assert took < PROMISED_SECONDS
    assert caplog.text.count(failure) == 1


def test_a_bad_setting_is_logged_and_harms_no_flow(monkeypatch, caplog):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_ORDERED_QUEUE_PROMOTED_TIMEOUT", "soon")

    end_a_run()

    assert "promoted_timeout" in caplog.text


def test_a_run_without_a_deployment_costs_nothing(monkeypatch):
    monkeypatch.setattr("ordered_queue.hooks.get_client", lambda **options: pytest.fail("a request was made"))

    hand_over_on_end(None, FlowRun(flow_id=FLOW_ID), Completed())
