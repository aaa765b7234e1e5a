"""Raw sockets to an HTTP server: requests byte by byte, and every byte of the answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from tests.support.limits import ANSWER_S

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
FRAMINGS = {
    "both lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + GET,
    "both lengths, the other order": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
    b"0\r\n\r\n" + GET,
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\n" + GET,
    "two lengths in one": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4, 0\r\n\r\n" + GET,
    "a folded line": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n Content-Length: 4\r\n\r\n" + GET,
    "a folded length": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + GET,
    "bare line feeds": (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + GET).replace(
        b"\r\n", b"\n"
    ),
    "one bare line feed": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: a\nContent-Length: 4\r\n\r\n" + GET,
    "a bare carriage return": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 4\r\n\r\n" + GET,
    "a bare line feed at the end": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\n" + GET,
    "a space before the colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 4\r\n\r\n" + GET,
    "an unknown encoding": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n" + GET,
    "a list of encodings": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"
    + GET,
    "two encodings": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
    + GET,
    "a signed length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n" + GET,
    "a negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n" + GET,
    "a hexadecimal length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n\r\n" + GET,
    "an empty length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n" + GET,
    "an encoding in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + GET,
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n" + GET,
    "no host": b"GET / HTTP/1.1\r\n\r\n" + GET,
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n" + GET,
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n" + GET,
    "a header too large": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000,
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n",
}
"""Requests that two servers may read differently. Each is followed by one that must not be answered."""


def answers(received: bytes) -> list[int]:
    """Return the status of every answer in the bytes of a server."""
    return [int(part[:3]) for part in received.replace(b"HTTP/1.0 ", b"HTTP/1.1 ").split(b"HTTP/1.1 ")[1:]]


def connected(port: int, sent: bytes = b"", buffer: int | None = None, source: str = "") -> socket.socket:
    """Open a connection and send ``sent``. ``buffer`` limits the bytes of the answer that the kernel accepts.

    ``source`` is another loopback address of the client.
    """
    made = socket.socket()
    if source:
        made.bind((source, 0))
    if buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.settimeout(ANSWER_S)
    made.connect(("127.0.0.1", port))
    with contextlib.suppress(OSError):  # the server may have ended it meanwhile
        made.sendall(sent)
    return made


def everything(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes.

    Raises:
        TimeoutError: it does not close within 20 seconds.
    """
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            received += part
    return received


def asked(port: int, sent: bytes) -> bytes:
    """Return what the server sends for ``sent`` until it closes."""
    with connected(port, sent) as connection:
        return everything(connection)


@contextlib.contextmanager
def crowd(port: int, size: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Open ``count`` connections, and send only ``sent`` on each."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connected(port, sent)) for _ in range(size)]
