"""A tool that many processes share. A test lets it fail and recover, and it counts the calls that reach it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.support.call_server import FAILURE, SUCCESS, CallServer

PROBE: Final = b"p"
"""The byte that a caller with a lease sends. Any other byte is a plain call."""
GRACE_S: Final = 0.3
"""How long the last probe is held, so that one too many shows. Refused callers ask a hundred times meanwhile."""
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


class SharedTool(CallServer):
    """The tool."""

    def __init__(self) -> None:
        super().__init__()
        self.state: Literal["healthy", "broken"] = "healthy"
        self.recovery: Recovery | None = None
        self.calls = 0
        self.last_call = time.monotonic()
        self._dead = False

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
        await super()._serve(reader, writer)

    async def answer(self, call: bytes) -> bytes:
        """Hold the calls of a recovery. Then answer by the tool's state."""
        self.calls += 1
        self.last_call = time.monotonic()
        recovery = self.recovery
        if recovery is not None and not recovery.over.is_set():
            await self._hold(recovery, call)
        return SUCCESS if self.state == "healthy" else FAILURE

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
