"""Network that can be made bad: TCP links through this process, each of which can be slow, cut, or closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Literal, Self

CHUNK = 262_144
CONNECT_S = 5.0
State = Literal["open", "cut", "closed"]


class Link:
    """Connections to ``port`` go on to ``target``, both on this machine.

    * ``slow(seconds)``: what is sent waits so long, in both directions.
    * ``cut()``: nothing gets through, without an error. What was sent arrives when the link is repaired, because TCP sends it again.
    * ``close()``: connections break, and new ones break at once.
    * ``mend()``: all of it ends.
    """

    def __init__(self, name: str, port: int, target: int) -> None:
        self.name = name
        self.port = port
        self.target = target
        self.carried = 0
        self.connections = 0
        self._state: State = "open"
        self._delay_s = 0.0
        self._through = asyncio.Event()
        self._through.set()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> str:
        """``open``, ``cut``, ``closed`` or ``slow``."""
        return "slow" if self._state == "open" and self._delay_s else self._state

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        self._break()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def slow(self, seconds: float) -> None:
        self._delay_s = seconds

    def cut(self) -> None:
        self._state = "cut"
        self._through.clear()

    def close(self) -> None:
        self._state = "closed"
        self._break()

    def mend(self) -> None:
        self._state, self._delay_s = "open", 0.0
        self._through.set()

    def _break(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()
        self._open.clear()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self._open.add(writer)
        try:
            if self._state != "closed":
                await self._carry(reader, writer)
        except (OSError, TimeoutError):
            pass  # the target is down: the client sees its connection break, as it would
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._through.wait()  # a cut link gives no answer
        async with asyncio.timeout(CONNECT_S):
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._open.add(back)
        ways = [asyncio.create_task(self._pump(reader, back)), asyncio.create_task(self._pump(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._open.discard(back)
            back.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._through.wait()
            sink.write(data)
            self.carried += len(data)
            await sink.drain()
        with contextlib.suppress(OSError):
            await sink.drain()


class Network:
    """All links, by name; a name is ``who/to whom``."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    async def add(self, name: str, port: int, target: int) -> Link:
        """A new link that carries at once."""
        link = self.links[name] = Link(name, port, target)
        await link.start()
        return link

    def named(self, prefix: str) -> list[Link]:
        """Links whose name begins so."""
        return [link for name, link in self.links.items() if name.startswith(prefix)]

    def mend(self, links: Iterable[Link] | None = None) -> None:
        """Mend the given links, or all."""
        for link in self.links.values() if links is None else links:
            link.mend()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self.links.values():
            await link.stop()
