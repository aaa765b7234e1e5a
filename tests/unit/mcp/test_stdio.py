"""Standard input and output of the proxy, whatever they are: a process that is started as a service has none of a client."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.limits import ANSWER_S
from tests.support.processes import environment

pytestmark = pytest.mark.slow
READ_ALL = """
import asyncio
from switchgear_mcp.stdio import StandardStreams

async def main():
    streams = StandardStreams()
    await streams.open()
    read = b""
    async for piece in streams.pieces():
        read += piece
    await streams.write(b"read " + read.strip())

asyncio.run(main())
"""


def answer(source: int) -> bytes:
    """Return what a process prints that reads all of a source."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL],
        env=environment(), stdin=source, stdout=subprocess.PIPE, timeout=ANSWER_S, check=True,
    )  # fmt: skip
    return done.stdout


def test_input_that_is_no_pipe_ends_like_one(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("a file")
    for path, expected in ((Path(os.devnull), b""), (tmp_path / "empty", b""), (tmp_path / "text", b"a file")):
        with path.open("rb") as file:
            assert answer(file.fileno()) == b"read " + expected + b"\n", path


def test_a_socket_and_a_terminal_are_read_until_they_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"a socket")
        ours.shutdown(socket.SHUT_WR)
        assert answer(theirs.fileno()) == b"read a socket\n"
    person, terminal = pty.openpty()
    try:
        os.write(person, b"a terminal\n\x04")
        assert answer(terminal) == b"read a terminal\n"
    finally:
        os.close(person)
        os.close(terminal)
