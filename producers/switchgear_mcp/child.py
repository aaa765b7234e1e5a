"""The process of a server, and its messages over standard input and output.

The SDK's own transport adds each piece of a line to the line so far, which takes quadratic time, and reads lines of any length.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from switchgear_mcp.environment import environment_of
from switchgear_mcp.message_size import Lines, TooLarge, sentence
from switchgear_mcp.servers import CommandServer

_PIECE: Final = 65_536
_FLUSH_S: Final = 0.5
_END_S: Final = 2.0
"""The time to end after its input has ended, and again after SIGTERM."""
_POLL_S: Final = 0.01
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class AnswerOfNoRequestError(Exception):
    """A server sent an answer that is too large, and its ends don't say to which request."""


@asynccontextmanager
async def started(server: CommandServer, stderr: IO[str], most: int) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server. Yield the streams of its messages, and end it afterwards.

    Args:
        server: The server.
        stderr: Gets its standard error.
        most: The most that one of its messages may cost.

    Raises:
        OSError: It can't be started.
        AnswerOfNoRequestError: See there. In a group.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=environment_of(server.env),
        cwd=server.folder,
        start_new_session=True,
        limit=_PIECE,
    )
    # No await until the group is entered: a cancellation would leave the process behind.
    into, read = anyio.create_memory_object_stream[Any](0)
    write, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    written = asyncio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, server.name, process, into, most)
        tasks.start_soon(_write, process, out_of, into, written)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()  # the reader goes on, without its lines: a full pipe would keep the server from its end
                write.close()
                with anyio.move_on_after(_FLUSH_S):
                    await written.wait()
                await _end(process)
                for stream in (read, write, into, out_of):
                    stream.close()
            tasks.cancel_scope.cancel()


async def _read(server: str, process: asyncio.subprocess.Process, into: Any, most: int) -> None:
    assert process.stdout is not None
    lines = Lines(most)
    try:
        async with into:
            while piece := await process.stdout.read(_PIECE):
                for line in lines.add(piece):
                    await into.send(_message(server, line, most))
    except _GONE:  # the session has ended
        while await process.stdout.read(_PIECE):
            pass


def _message(server: str, line: bytes | TooLarge, most: int) -> SessionMessage | Exception:
    if isinstance(line, TooLarge):
        return _too_large(server, line, most)
    try:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            text = line.decode(errors="replace")
            if text.isascii() or "\ufffd" not in text:
                return error
            message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        return error
    return SessionMessage(message)


def _too_large(server: str, left_out: TooLarge, most: int) -> SessionMessage | Exception:
    text = sentence(server, most)
    if left_out.request is not None:
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=text)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=left_out.request, error=error))
    if left_out.asks:
        return ValueError(text)
    raise AnswerOfNoRequestError(text)


async def _write(process: asyncio.subprocess.Process, out_of: Any, into: Any, written: asyncio.Event) -> None:
    assert process.stdin is not None
    try:
        async with out_of:
            async for sent in out_of:
                process.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
    except (*_GONE, OSError):
        into.close()  # so that requests under way don't wait for a server that doesn't read
    finally:
        written.set()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the server's input, then end it and its own processes, then kill them."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL, None):
        if await _has_ended(process) or number is None:
            break
        with suppress(OSError):
            os.killpg(process.pid, number)
    # A process of its own that outlives it may hold the other end of the pipes.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public closes it


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Wait for the end of the process. Its ``wait()`` also waits for whatever holds its pipes."""
    until = asyncio.get_running_loop().time() + _END_S
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(_POLL_S)
    return True
