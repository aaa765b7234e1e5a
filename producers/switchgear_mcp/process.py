"""The process of a server, and its messages over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from switchgear_mcp.channel import Receiver, larger
from switchgear_mcp.environment import environment_of
from switchgear_mcp.errors import AnswerTooLargeError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.lines import Lines, TooLarge
from switchgear_mcp.message import Id, Message, parsed
from switchgear_mcp.servers import CommandServer

_PIECE: Final = 262_144
_END_S: Final = 2.0
"""The time to end after its input has ended, and again after SIGTERM."""
_POLL_S: Final = 0.01
_STDERR_LIMIT_S: Final = 0.5
_MOST_STDERR: Final = 300
"""Characters of the last line of standard error in a message."""


class AnswerOfNoRequestError(Exception):
    """A server sent an answer that is too large, and its ends don't say to which request."""


class Process:
    """A server that the proxy starts.

    Args:
        server: The server.
        receiver: Gets its messages.
        most: The most bytes of one of its messages.
        hidden: The secrets of its entry.
    """

    def __init__(self, server: CommandServer, receiver: Receiver, most: int, hidden: Hidden) -> None:
        self._server, self._receiver, self._most, self._hidden = server, receiver, most, hidden
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: _Stderr | None = None

    async def run(self, opened: Callable[[], None]) -> None:
        """Start the server, and read until it ends. See :class:`~switchgear_mcp.channel.Channel`."""
        self._stderr = _Stderr()
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                self._server.command,
                *self._server.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._stderr.file,
                env=environment_of(self._server.env),
                cwd=self._server.folder,
                start_new_session=True,
                limit=_PIECE,
            )
        finally:
            self._stderr.close()  # the server has it
        try:
            opened()
            await self._read(process)
        finally:
            await _end(process)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - of HTTP
        """Write a line, and wait until there is room for more."""
        if self._process is None or self._process.stdin is None:
            raise ConnectionResetError
        self._process.stdin.write(message.line + b"\n")
        await self._process.stdin.drain()

    async def cancel(self, number: Id, notification: Message) -> None:  # noqa: ARG002 - it is in the notification
        """Send the notification."""
        await self.send(notification, {})

    async def described(self, error: BaseException | None) -> str:
        """Return why the process ended."""
        if isinstance(error, AnswerOfNoRequestError):
            return f"was ended. {error}".rstrip(".")
        if self._process is None and isinstance(error, OSError) and error.strerror:
            return f"can't be started: {error.strerror}"
        last = "" if self._stderr is None else self._hidden.line(await asyncio.to_thread(self._stderr.last_line))
        return f"has ended; the last line of its standard error is: {last}" if last else "has ended"

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        lines = Lines(self._most)
        while piece := await process.stdout.read(_PIECE):
            for line in lines.add(piece):
                if isinstance(line, TooLarge):
                    await self._leave_out(line)
                    continue
                try:
                    found = parsed(line)
                except ValueError as error:
                    self._receiver.skip(str(error))
                    continue
                for message in found:
                    await self._receiver.receive(message)

    async def _leave_out(self, line: TooLarge) -> None:
        text = larger(self._server.name, self._most)
        if line.request is not None:
            await self._receiver.fail(line.request, AnswerTooLargeError(text))
        elif line.asks:
            self._receiver.skip(text)
        else:
            raise AnswerOfNoRequestError(text)


class _Stderr:
    """Passes a server's standard error on, and remembers its last line."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w")
        self._last = b""
        # A thread, because whoever reads our standard error may be slow.
        self._thread = threading.Thread(target=self._copy, args=(reading,), name="stderr of a server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close our end. The thread ends when the server has closed its own."""
        with suppress(OSError):
            self.file.close()

    def last_line(self) -> str:
        """Return the last line that isn't empty, shortened. It waits a moment for it."""
        self._thread.join(_STDERR_LIMIT_S)
        text = self._last.decode(errors="replace").strip()
        return text if len(text) <= _MOST_STDERR else f"{text[:_MOST_STDERR]}…"

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            while line := lines.readline(65_536):
                if line.strip():
                    self._last = line
                with suppress(OSError, ValueError):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the server's input, then end it and its own processes, then kill them."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    # A full pipe would keep the server from its end.
    draining = asyncio.ensure_future(_drain(process.stdout))
    try:
        for number in (signal.SIGTERM, signal.SIGKILL, None):
            if await _has_ended(process) or number is None:
                break
            with suppress(OSError):
                os.killpg(process.pid, number)
    finally:
        draining.cancel()
        # A process of its own that outlives it may hold the other end of the pipes.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public closes it


async def _drain(stdout: asyncio.StreamReader) -> None:
    while await stdout.read(_PIECE):
        pass


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Wait for the end of the process. Its ``wait()`` also waits for whatever holds its pipes."""
    until = asyncio.get_running_loop().time() + _END_S
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(_POLL_S)
    return True
