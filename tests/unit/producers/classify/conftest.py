"""A real HTTP server whose answers depend on the path."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.parse

import pytest

from tests.support.http_server import served
from tests.support.limits import HAPPEN_S


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serve ``/status/503?retry-after=17`` with that status, header and a JSON body; ``/close``, ``/cut``, ``/slow`` and ``/html`` misbehave."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        address = urllib.parse.urlsplit(self.path)
        parts = address.path.strip("/").split("/")
        if "status" in parts:  # a client may add a path of its own
            at = parts.index("status")
            self._send(int(parts[at + 1]), json.dumps({"error": {"type": "t", "message": "m"}}).encode(), address.query)
        elif "close" in parts:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif "cut" in parts:
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b"short")
            self.close_connection = True
        elif "slow" in parts:
            self.server.released.wait(HAPPEN_S)  # type: ignore[attr-defined]
            self.close_connection = True
        elif "stream" in parts:
            self._send(200, self.server.stream.encode(), "", "text/event-stream")  # type: ignore[attr-defined]
        else:
            self._send(200, b"<html>", "", "text/html")

    do_GET = do_POST = _answer  # noqa: N815 - the base's names

    def _send(self, status: int, body: bytes, query: str, kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in urllib.parse.parse_qsl(query):
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="session")
def http_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.released = threading.Event()
    server.stream = ""
    with served(server):
        yield server
        server.released.set()


@pytest.fixture
def url(http_server):
    return f"http://127.0.0.1:{http_server.server_address[1]}"


@pytest.fixture
def unreachable():
    """An address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
