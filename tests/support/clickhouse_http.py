"""A ClickHouse server for tests: the HTTP interface over the embedded engine, in its own process, with faults on request.

It speaks what clickhouse-connect speaks: ``POST /?query=…&database=…&param_x=…&setting=…``, data behind an INSERT, errors with
``X-ClickHouse-Exception-Code``. ``POST /fault?inserts=…`` orders what happens to inserts: ``ok``, ``503``, ``code-252``,
``reset`` (the connection breaks before anything is stored), ``stored-then-reset`` (it breaks after) or ``slow-1.5`` (each takes so
many seconds longer).

The embedded engine has one user. For :data:`READER` the server sets ``readonly = 2`` first, which the engine holds, and answers
``SHOW GRANTS`` with the one right that this user has.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import Request, urlopen

import lz4.frame

from tests.support.limits import ANSWER_S, READY_S

NOT_SETTINGS = {
    "query", "database", "query_id", "session_id", "session_timeout", "session_check", "wait_end_of_query", "buffer_size",
    "client_protocol_version", "compress", "decompress", "default_format", "role", "enable_http_compression",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "quota_key",
}  # fmt: skip
INSERT = re.compile(rb"\s*INSERT\s+INTO\s", re.IGNORECASE)
FORMAT = re.compile(rb"\sFORMAT\s+(\w+)\s*$", re.IGNORECASE)
START_S = READY_S
MAX_FIELD_BYTES = 131_072
"""The server's http_max_field_value_size."""
READER = "switchgear_reader"
READERS_GRANTS = f"GRANT SELECT ON switchgear.* TO {READER}\n"


class Handler(BaseHTTPRequestHandler):
    """A request with its own connection handle. Settings and database are per request, as on a server."""

    protocol_version = "HTTP/1.1"
    folder: str
    fault = "ok"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._answer(200, b"Ok.\n")
        else:
            self.do_POST()

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        given = dict(parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) if "chunked" not in self.headers.get(
            "Transfer-Encoding", ""
        ) else self._chunks()  # fmt: skip
        if self.headers.get("Content-Encoding") == "lz4":
            body = lz4.frame.decompress(body)
        content = self.headers.get("Content-Type", "")
        if content.startswith("multipart/form-data"):  # parameters too long for the address come as fields
            fields = _fields(content, body)
            if any(len(value.encode()) > MAX_FIELD_BYTES for value in fields.values()):
                self._answer(400, b"Field value too long", {"X-ClickHouse-Exception-Code": "1000"})
                return
            given |= fields
            body = b""
        if url.path == "/fault":
            type(self).fault = given["inserts"]
            self._answer(200, b"")
            return
        query = given.get("query", "").encode()
        inserting = INSERT.match(query or body) is not None
        if inserting and self._fails():
            return
        try:
            found = self._run(query, body, given, reading=self._user() == READER)
        except Exception as error:  # noqa: BLE001 - as a server does: every error is an answer
            text = str(error)
            code = re.search(r"Code: (\d+)", text)
            self._answer(500, text.encode(), {"X-ClickHouse-Exception-Code": code[1] if code else "1001"})
            return
        if inserting and self.fault == "stored-then-reset":
            self._reset()
            return
        self._answer(200, found, {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Timezone": "UTC"})

    def _user(self) -> str:
        kind, _, secret = self.headers.get("Authorization", "").partition(" ")
        return b64decode(secret).decode().partition(":")[0] if kind == "Basic" else ""

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _fails(self) -> bool:
        if self.fault == "503":
            self._answer(503, b"<html>no upstream</html>")
        elif self.fault.startswith("code-"):
            code = self.fault.removeprefix("code-")
            self._answer(500, f"Code: {code}. DB::Exception: ordered".encode(), {"X-ClickHouse-Exception-Code": code})
        elif self.fault == "reset":
            self._reset()
        elif self.fault.startswith("slow-"):
            time.sleep(float(self.fault.removeprefix("slow-")))
            return False
        else:
            return False
        return True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _run(self, query: bytes, body: bytes, given: dict[str, str], *, reading: bool) -> bytes:
        import chdb  # noqa: PLC0415 - in the server's process alone

        if reading and (query + body).startswith(b"SHOW GRANTS"):
            return READERS_GRANTS.encode()
        connection = chdb.connect(self.folder)
        try:
            if reading:
                connection.query("SET readonly = 2")
            if database := given.get("database"):
                connection.query(f"USE `{database}`")
            settings = {
                name: value
                for name, value in given.items()
                if name not in NOT_SETTINGS and not name.startswith("param_")
            }
            for name in sorted(settings, key=lambda each: each == "readonly"):
                connection.query(f"SET {name} = '{settings[name]}'")
            parameters = {
                name.removeprefix("param_"): value for name, value in given.items() if name.startswith("param_")
            }
            return self._statement(connection, query, body, parameters)
        finally:
            connection.close()

    @staticmethod
    def _statement(connection: Any, query: bytes, body: bytes, parameters: dict[str, str]) -> bytes:
        if not query and INSERT.match(body):
            query, _, body = body.partition(b"\n")
        if INSERT.match(query) and (formatted := FORMAT.search(query)) and body:
            with tempfile.NamedTemporaryFile(suffix=".raw") as data:
                data.write(body)
                data.flush()
                into = query[: formatted.start()].decode()
                connection.query(f"{into} FROM INFILE '{data.name}' FORMAT {formatted[1].decode()}")
            return b""
        found = connection.query(
            (query + b"\n" + body if query and body else query or body).decode(), "TabSeparated", params=parameters
        )
        return bytes(found.bytes() or b"")

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _fields(content_type: str, body: bytes) -> dict[str, str]:
    """Return the fields of a form."""
    form = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    found = {}
    for part in form.get_payload():
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        value = part.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(value, bytes)
        found[name] = value.decode()
    return found


class ClickHouseServer:
    """The server as a child process. It can be killed and started again on the same port and folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.clickhouse_http", str(self.folder), str(self.port)],
            cwd=root,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(root)},
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                with urlopen(f"{self.url}/ping", timeout=2):
                    return self
            except (URLError, OSError):
                assert self._process.poll() is None, "the ClickHouse test server ended"
                assert time.monotonic() < deadline, "the ClickHouse test server does not answer"
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def order(self, inserts: str) -> None:
        """Set what happens to inserts from now on."""
        with urlopen(Request(f"{self.url}/fault?inserts={inserts}", data=b""), timeout=ANSWER_S):
            pass


@contextmanager
def clickhouse_server(folder: Path, port: int) -> Iterator[ClickHouseServer]:
    """Run a server, and end it at the end."""
    server = ClickHouseServer(folder, port).start()
    try:
        yield server
    finally:
        server.kill()


def main(folder: str, port: str) -> None:
    """Serve until killed."""
    import chdb  # noqa: PLC0415 - in the server's process alone

    keeper = chdb.connect(folder)
    Handler.folder = folder
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    keeper.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
