"""Prefect's own client neither retries nor sleeps while it works for us. Over a real socket: respx knows no trace."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings


@pytest.fixture
def unwilling():
    """A server that turns every request away with the status and headers that the test sets."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            server.seen.append(self.path)
            body = json.dumps({"detail": "later"}).encode()
            self.send_response(server.status)
            for name, value in {**server.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  # the name that http.server calls

        def log_message(self, *args):
            """Quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            """Quiet: that the client hangs up on a refusal is the point."""

    server = Server(("127.0.0.1", 0), Handler)
    server.seen, server.status, server.headers = [], 503, {}
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    with temporary_settings(updates={PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
        yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [408, 429, 502, 503])
@pytest.mark.parametrize("headers", [{}, {"Prefect-Maintenance": "true"}])
def test_prefects_client_does_not_sleep_on_an_answer_that_it_would_retry(
    unwilling, calls, no_waiting, caplog, status, headers
):
    unwilling.status, unwilling.headers = status, headers

    assert calls.fill(UUID(int=1)) == 0

    assert len(unwilling.seen) == 4
    assert no_waiting == [0.25, 0.5, 1.0]
    assert f"the server answered {status}" in caplog.text


def test_a_server_that_asks_for_time_is_given_it(unwilling, calls, no_waiting):
    unwilling.status, unwilling.headers = 429, {"Retry-After": "3"}

    calls.fill(UUID(int=1))

    assert no_waiting == [3.0] * 3


def test_a_server_that_asks_for_more_time_than_a_flows_end_has_is_given_up_on(unwilling, calls, no_waiting, caplog):
    unwilling.status, unwilling.headers = 503, {"Retry-After": "60"}

    calls.fill(UUID(int=1))

    assert no_waiting == []
    assert len(unwilling.seen) == 1
    assert "Could not fill" in caplog.text
