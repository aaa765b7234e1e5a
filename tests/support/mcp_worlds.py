"""A server that a test plays, behind a proxy, and a client in front of it. No process, no socket."""

from __future__ import annotations

import asyncio
import json

from switchgear import BreakerPolicy, FunctionHooks
from switchgear_mcp.message import parsed
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.servers import CommandServer
from tests.support.limits import HAPPEN_S
from tests.support.local_client import local_client

FIVE = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=3600)


def line(message):
    """Return a message as bytes: those given, or JSON."""
    if isinstance(message, bytes):
        return message
    return json.dumps({"jsonrpc": "2.0"} | message).encode()


class PlayedServer:
    """One connection to a server. What is in ``answers`` by method is answered at once, the rest waits for the test."""

    def __init__(self, world, name, receiver):
        self._world, self.name, self._receiver = world, name, receiver
        self.got = []
        """The bytes of all messages that came."""
        self._end = asyncio.Event()

    async def run(self, opened):
        if not self._world.up:
            raise ConnectionRefusedError("nobody listens")
        opened()
        await self._end.wait()

    async def send(self, message, headers):
        if self._end.is_set():
            raise ConnectionResetError
        self.got.append(message.line)
        answer = self._world.own.get(self.name, self._world.answers).get(message.method)
        if isinstance(answer, Exception):
            await self.fail(message.id, answer)
        elif message.is_request and answer is not None:
            answer = answer(json.loads(message.line)) if callable(answer) else answer
            await self.say({"id": json.loads(message.line)["id"]} | answer)

    async def cancel(self, number, notification):
        await self.send(notification, {})

    async def described(self, error):
        return f"can't be reached: {error}" if error else "has ended"

    async def say(self, message):
        """Send a message to the proxy."""
        for each in parsed(line(message)):
            await self._receiver.receive(each)

    async def fail(self, number, error):
        await self._receiver.fail(number, error)

    def end(self):
        """End the connection."""
        self._end.set()

    def asked(self, method):
        """Return the requests and notifications of a method."""
        return [found for each in self.got if (found := json.loads(each)).get("method") == method]


HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"x/vendor": {"a": 1}},
    "clientInfo": {"name": "t", "version": "1"},
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "search")]
ANSWERS = {
    "initialize": {
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "2"},
        }
    },
    "ping": {"result": {}},
    "tools/list": {"result": {"tools": TOOLS}},
}


class World:
    """A proxy with a client, and the connections that were made to its server."""

    logs_in = False

    def __init__(self, policy=FIVE, names=("small",), gear_options=None, **options):
        self.now, self.up = 0.0, True
        self.answers = dict(ANSWERS)
        self.own = {}
        """By the name of one of several servers, its answers in place of the others'."""
        self.connections, self.outcomes, self.seen = [], [], []
        gear = local_client(
            lambda: self.now,
            local_policies=policy,
            hooks=[FunctionHooks(on_outcome=self.outcomes.append)],
            **(gear_options or {}),
        )
        servers = [CommandServer(name, "a-server") for name in names]
        self.proxy = Proxy(servers, gear, clock=lambda: self.now, make=self._channel, **options)
        self.link = self.proxy.link(self)

    def _channel(self, server, connection, _most, _hidden):
        self.connections.append(PlayedServer(self, server.name, connection))
        return self.connections[-1]

    @property
    def server(self):
        """The last connection."""
        return self.connections[-1]

    @property
    def classes(self):
        """The classes of the outcomes of calls."""
        return [outcome.error_class for outcome in self.outcomes]

    async def send(self, message, related=None):
        """Take what the proxy sends to the client."""
        self.seen.append(message.line)

    async def tell(self, message):
        """Send a message to the proxy as the client."""
        for each in parsed(line(message)):
            await self.link.handle(each)

    async def ask(self, number, method, **params):
        """Send a request as the client, and return its answer."""
        await self.tell({"id": number, "method": method, "params": params})
        return await self.answer(number)

    async def answer(self, number):
        """Wait for the answer to a request. Return it."""
        async with asyncio.timeout(HAPPEN_S):
            while True:
                for each in self.seen:
                    found = json.loads(each)
                    if "method" not in found and found["id"] == number:
                        self.seen.remove(each)
                        return found
                await asyncio.sleep(0.01)

    async def call(self, number, name="search", **arguments):
        """Call a tool."""
        return await self.ask(number, "tools/call", name=name, arguments=arguments)

    async def hello(self):
        """Make the handshake as clients do."""
        answer = await self.ask("hello", "initialize", **HELLO)
        await self.tell({"method": "notifications/initialized"})
        return answer
