"""A tool that many processes share. A test lets it fail and recover, and it counts the calls that reach it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Final, Literal, Self

PROBE: Final = b"p"
"""The byte that a caller with a lease sends. Any other byte is a plain call."""
GRACE_S: Final = 0.3
"""How long the last probe is held, so that one too many shows. Refused callers ask a hundred times meanwhile."""
END_S: Final = 5.0
_ACCEPT_TURNS: Final = 5
"""Turns of the event loop until an accepted connection has its handler, and one to spare."""
ALONE_S: Final = 0.4
"""How long a probe waits for the others. A single process makes them one after the other."""


@dataclass
class Recovery:
    """The calls that reached the tool from its recovery until the last expected probe was answered."""

    expected: int
    probes: int = 0
    plain: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def arrived(self) -> int:
        """The calls of both kinds."""
        return self.probes + self.plain


class SharedTool:
    """A TCP server: one byte per call, one byte per answer (``+`` or ``-``). ``async with`` starts and ends it."""

    def __init__(self) -> None:
        self.state: Literal["healthy", "broken"] = "healthy"
        self.recovery: Recovery | None = None
        self.calls = 0
        self.callers = 0
        self.last_call = time.monotonic()
        self._server: asyncio.Server | None = None
        self._dead = False
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def mend(self, expected: int) -> Recovery:
        """Let calls succeed from now on. The first ``expected`` probes are held until all of them are there."""
        self.state = "healthy"
        self.recovery = Recovery(expected)
        return self.recovery

    def die(self) -> None:
        """Reset all connections, also new ones, until :meth:`rise`."""
        self._dead = True
        for writer in list(self._open):
            writer.transport.abort()

    def rise(self, expected: int) -> Recovery:
        """Serve again. The calls are held as by :meth:`mend`."""
        self._dead = False
        return self.mend(expected)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._dead:
            writer.transport.abort()
            return
        self._open.add(writer)
        self.callers += 1
        try:
            while call := await reader.read(1):
                self.calls += 1
                self.last_call = time.monotonic()
                recovery = self.recovery
                if recovery is not None and not recovery.over.is_set():
                    await self._hold(recovery, call)
                writer.write(b"+" if self.state == "healthy" else b"-")
        except ConnectionError:
            pass  # a caller that was ended in the middle of a call
        finally:
            self.callers -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._open.discard(writer)

    async def _hold(self, recovery: Recovery, call: bytes) -> None:
        if call == PROBE:
            recovery.probes += 1
        else:
            recovery.plain += 1
        if recovery.arrived == recovery.expected:
            await asyncio.sleep(GRACE_S)
            recovery.over.set()
            return
        try:
            async with asyncio.timeout(ALONE_S):
                await recovery.over.wait()
        except TimeoutError:
            pass  # no other process probes now, so it is answered alone

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_ACCEPT_TURNS):  # a connection that has no handler when the server closes stays open
            await asyncio.sleep(0)
        self._server.close()
        for writer in list(self._open):
            writer.close()
        try:
            async with asyncio.timeout(END_S):
                while self._open:  # noqa: ASYNC110 - each ends by itself once its connection is closed
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass  # the event loop cancels what is left
