"""A server with a quota, which many processes call: it takes so many calls in any period, and refuses the others as too many."""

from __future__ import annotations

import asyncio
import contextlib
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Self

TAKEN: Final = b"+"
REFUSED: Final = b"-"


@dataclass
class Quota:
    """The calls of one arm of an experiment: each arm has a quota of its own."""

    calls: int
    period_s: float
    taken: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    _recent: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> bool:
        """Take a call, or refuse it."""
        while self._recent and self._recent[0] <= now - self.period_s:
            self._recent.popleft()
        if len(self._recent) >= self.calls:
            self.refused.append(now)
            return False
        self._recent.append(now)
        self.taken.append(now)
        return True

    def fullest(self, since: float, until: float) -> float:
        """Return how many calls came in the fullest period between two instants, as a share of the quota."""
        made = sorted(at for at in (*self.taken, *self.refused) if since <= at < until)
        ends = (index + 1 - bisect_left(made, at - self.period_s) for index, at in enumerate(made))
        return max(ends, default=0) / self.calls


class QuotaServer:
    """A TCP server: a call is one byte, the arm; an answer is ``+`` or ``-``. ``async with`` starts and ends it."""

    def __init__(self, calls: int, period_s: float, arms: int) -> None:
        self.arms = [Quota(calls, period_s) for _ in range(arms)]
        self.callers = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.callers += 1
        try:
            while call := await reader.read(1):
                writer.write(TAKEN if self.arms[call[0]].take(time.time()) else REFUSED)
        except ConnectionError:
            pass  # a caller that was ended in the middle of a call
        finally:
            self.callers -= 1
            self._open.discard(writer)
            writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while self._open:  # noqa: ASYNC110 - each ends by itself once its connection is closed
                    await asyncio.sleep(0.01)
