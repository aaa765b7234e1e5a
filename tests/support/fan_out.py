"""The two processes of the fan-out bench: a gateway with its streams, and an audience of thousands of sockets.

Each reads commands from its standard input, and answers in lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import sys
import time
from collections import defaultdict
from typing import Any, Final, Self

from switchgear import CircuitFollower
from switchgear_gateway.circuits import CircuitRoutes
from switchgear_gateway.shared import Shared
from tests.support.circuit_server import serving
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.waiting import auntil

MARK: Final = "version="
_MARKED: Final = re.compile(rb"version=(\d+);")
_ID: Final = re.compile(rb"id: ([^\n]*)\nevent: heartbeat\n")
LIMIT_S: Final = 5 * HAPPEN_S
_LONGEST_LINE: Final = 64 * 1024 * 1024


class Party:
    """One of the processes, from the outside. Use it as an asynchronous context.

    Args:
        role: ``gateway`` or ``audience``.
        arguments: Of the process.
        core: The only core that it may use, if the machine has more than one.
    """

    def __init__(self, role: str, *arguments: str, core: int) -> None:
        self._command = [sys.executable, "-m", "tests.support.fan_out", role, str(core), *arguments]
        self._process: Any = None

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def read(self) -> dict[str, Any]:
        """Return the next answer."""
        async with asyncio.timeout(LIMIT_S):
            line = await self._process.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    async def ask(self, command: str, number: int) -> dict[str, Any]:
        """Send a command, and return its answer."""
        self._process.stdin.write(f"{command} {number}\n".encode())
        return await self.read()


class Listener(asyncio.Protocol):
    """One client."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.last_id = b""
        self.ready = False
        self.transport: Any = None
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        """Send the request."""
        self.transport = transport
        resume = b"Last-Event-ID: %s\r\n" % self.last_id if self.last_id else b""
        transport.write(b"GET /v1/circuits/stream HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % resume)

    def data_received(self, data: bytes) -> None:
        """Look for changes and for the heartbeat that ends the beginning of a stream."""
        audience = self.audience
        audience.bytes += len(data)
        text = self._rest + data
        self._rest = text[-400:] if not self.ready else b""
        for version in _MARKED.findall(data):
            if self.ready:
                audience.heard[int(version)].append(time.monotonic())
                audience.events += 1
        found = _ID.search(text) if not self.ready or b"heartbeat" in data else None
        if found is not None:
            self.last_id = found[1]
            if not self.ready:
                self.ready, self._rest = True, b""
                audience.ready += 1


class Audience:
    """All clients."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.listeners: list[Listener] = []
        self.heard: dict[int, list[float]] = defaultdict(list)
        self.events = self.ready = self.bytes = 0

    async def connect(self) -> dict[str, float]:
        """Connect all clients at once. Return when each has its circuits."""
        loop = asyncio.get_running_loop()
        self.ready = self.bytes = 0
        began = time.monotonic()
        await asyncio.gather(
            *(loop.create_connection(lambda each=each: each, "127.0.0.1", self.port) for each in self.listeners)
        )
        await auntil(lambda: self.ready == len(self.listeners), LIMIT_S)
        return {"seconds": time.monotonic() - began, "bytes": self.bytes}

    async def answer(self, command: str, number: int) -> dict[str, Any]:
        """Do what a command says."""
        if command == "open":
            self.listeners = [Listener(self) for _ in range(number)]
            return await self.connect()
        if command == "storm":
            for each in self.listeners:
                each.transport.abort()
                each.ready = False
                each.last_id = each.last_id if number else b""
            return await self.connect()
        await auntil(lambda: self.events >= number, LIMIT_S)
        return {"heard": self.heard} if command == "heard" else {}


async def audience(port: str) -> None:
    """Run the clients until the input ends."""
    all_clients = Audience(int(port))
    lines = await _input()
    print("{}", flush=True)
    while line := await lines.readline():
        command, number = line.split()
        print(json.dumps(await all_clients.answer(command.decode(), int(number))), flush=True)


async def gateway(bootstrap: str, prefix: str) -> None:
    """Run the routes with a follower until the input ends."""
    follower = CircuitFollower(bootstrap, topic_prefix=prefix)
    routes = CircuitRoutes(follower, Shared())
    lines = await _input()
    async with serving(routes) as port:
        follower.start()
        await auntil(lambda: routes.loaded, HAPPEN_S)
        print(json.dumps({"port": port}), flush=True)
        await lines.read()
    follower.close(5)


async def _input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def main() -> None:
    """Run one of the two."""
    role, core, *arguments = sys.argv[1:]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[int(core) % len(cores)]})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run({"gateway": gateway, "audience": audience}[role](*arguments))


if __name__ == "__main__":
    main()
