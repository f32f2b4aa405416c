"""A TCP link between a client and its server that the test controls: any request on it can meet any weather.

It speaks HTTP on both sides, so that it can count requests; what stands on it are Prefect's own clients over real
sockets, with whatever they do by themselves.
"""

import http.client
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

DELAY_SECONDS = 5.0
HANG_SECONDS = 12.0


@dataclass
class Link:
    """The link as the test holds it.

    Attributes:
        api_url: where the client connects to.
        faults: what happens to the request of each number, from 1; a fault strikes once.
        on_path: what happens to every request of each path.
        seen: method and path of every request, in order.
    """

    api_url: str
    faults: dict[int, str] = field(default_factory=dict)
    on_path: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def strike(self, request_number: int, fault: str) -> None:
        """Let the request of that number, counted from now, meet this fault."""
        self.seen.clear()
        self.faults = {request_number: fault}


def never_arrives(handler, forward):
    """The connection breaks before the server has the request."""


def answer_lost(handler, forward):
    """The server has committed; the connection breaks before the answer is back."""
    forward()


def answer_hangs(handler, forward):
    """The server has committed; the answer never comes, and nobody says so."""
    forward()
    handler.link.closing.wait(HANG_SECONDS)


def request_hangs(handler, forward):
    """The request goes nowhere, and nobody says so."""
    handler.link.closing.wait(HANG_SECONDS)


def cut_in_the_middle(handler, forward):
    """Half an answer."""
    status, headers, body = forward()
    handler.reply(status, headers, body, body[: len(body) // 2])


def delayed(handler, forward):
    """The answer takes its time."""
    answer = forward()
    handler.link.closing.wait(DELAY_SECONDS)
    handler.reply(*answer)


def refuses_with(status: int, **headers: str) -> Callable:
    def refuse(handler, forward):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(status, named, b'{"detail":"weather"}')

    return refuse


FAULTS: dict[str, Callable] = {
    "request never arrives": never_arrives,
    "answer lost": answer_lost,
    "answer hangs": answer_hangs,
    "request hangs": request_hangs,
    "cut in the middle": cut_in_the_middle,
    "5 s of delay": delayed,
    "429": refuses_with(429, Retry_After="1"),
    "500": refuses_with(500),
    "503": refuses_with(503),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    link: Link
    upstream: str

    def handle_any(self):
        if "Upgrade" in self.headers:
            self.step_aside()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.link.seen.append(f"{self.command} {self.path}")
        fault = self.link.faults.pop(len(self.link.seen), self.link.on_path.get(self.path))
        if fault is None:
            self.reply(*self.forward(body))
            return
        self.close_connection = True
        FAULTS[fault](self, lambda: self.forward(body))

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815  # the names that http.server calls

    def step_aside(self):
        """What becomes another kind of connection, as events do, passes as it is."""
        self.close_connection = True
        headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        begun = f"{self.requestline}\r\n{headers}\r\n".encode("latin-1")
        host, port = self.upstream.split(":")
        pass_on(self.connection, (host, int(port)), begun)

    def forward(self, body: bytes):
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")
        }
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        kept = {name: value for name, value in answer.getheaders() if name.lower() in ("content-type", "date")}
        content = answer.read()
        connection.close()
        return answer.status, kept, content

    def reply(self, status: int, headers: dict[str, str], body: bytes, sent: bytes | None = None) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if sent is None else sent)

    def log_message(self, *args):
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Quiet: that the other side hangs up is what these tests are about."""


@contextmanager
def linked(api_url: str):
    """A link to the API at `api_url`."""
    server = Server(("127.0.0.1", 0), Handler)
    link = Link(f"http://127.0.0.1:{server.server_port}/api")
    server.RequestHandlerClass = type("LinkHandler", (Handler,), {"link": link, "upstream": urlsplit(api_url).netloc})
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield link
    finally:
        link.closing.set()
        server.shutdown()
        server.server_close()
        time.sleep(0)


class Tunnel(socketserver.BaseRequestHandler):
    """Carries a connection as it is, unless it is the one that asks for the stream of events."""

    upstream: tuple[str, int]

    def handle(self):
        begun = self.request.recv(65536)
        if EVENT_STREAM in begun.split(b"\r\n", 1)[0]:
            return
        pass_on(self.request, self.upstream, begun)


EVENT_STREAM = b"/api/events/out"


def pass_on(client: socket.socket, upstream: tuple[str, int], begun: bytes) -> None:
    """A whole connection, whatever is spoken on it; `begun` is what was read of it already."""
    with socket.create_connection(upstream) as server:
        server.sendall(begun)
        back = threading.Thread(target=carry, args=(server, client), daemon=True)
        back.start()
        carry(client, server)
        back.join(HANG_SECONDS)


def carry(source: socket.socket, target: socket.socket) -> None:
    """Bytes from one side to the other until either has closed."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class TunnelServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """Quiet."""


@contextmanager
def without_event_stream(api_url: str):
    """A way to the API on which everything works but following its events; yields its URL."""
    where = urlsplit(api_url)
    handler = type("To", (Tunnel,), {"upstream": (where.hostname, where.port)})
    with TunnelServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/api"
        finally:
            server.shutdown()
