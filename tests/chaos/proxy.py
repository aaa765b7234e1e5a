"""TCP links through this process. Each can be made slow, cut or closed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from switchgear_cli.local.ports import is_free

CHUNK = 262_144
CONNECT_S = 5.0
LOWEST_PORT = 12_000
State = Literal["open", "cut", "closed"]


class Link:
    """Forwards connections from ``port`` to ``target``, both on this machine.

    * ``slow(seconds)``: all data is delayed, in both directions.
    * ``cut()``: no data gets through, and no peer notices. The data arrives when the link is mended, as with TCP's retransmission.
    * ``close()``: connections break, and new ones break at once.
    * ``mend()``: the link works again.
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
        """Start listening."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Close the listener and all connections."""
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
            pass  # the target is down, so the client's connection breaks
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._through.wait()  # a cut link accepts connections and does not answer
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
    """All links by name. A name is ``from/to``."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    async def add(self, name: str, port: int, target: int) -> Link:
        """Add a link and start it."""
        link = self.links[name] = Link(name, port, target)
        await link.start()
        return link

    def named(self, prefix: str) -> list[Link]:
        """Return the links whose name begins with ``prefix``."""
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


def steady_ports(count: int) -> list[int]:
    """Return free ports below those that the kernel gives to clients. A server that is killed then finds its port free again.

    From the clients' range, a client that retries a dead server may get the server's own port, connect to itself, and keep the port.
    """
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_of_clients = int(range_file.read_text().split()[0]) if range_file.exists() else 32_768
    start = random.randrange(LOWEST_PORT, max(LOWEST_PORT + 1, first_of_clients - 2_000))
    found = [port for port in range(start, first_of_clients) if is_free(port)][:count]
    if len(found) < count:
        raise RuntimeError(f"No {count} free ports from {start} to {first_of_clients}.")
    return found
