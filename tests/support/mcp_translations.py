"""A client's receiver and a server's channel that a test plays, with a translation between versions of MCP in between."""

from __future__ import annotations

import json

from switchgear_mcp.message import parsed
from tests.support.mcp_worlds import line


class Translated:
    """Both sides of a translation. ``made`` makes it, and ``answers`` are the server's by method; it answers no other method."""

    def __init__(self, made, answers):
        self.answers = answers
        self.got, self.seen, self.failed, self.cancelled = [], [], [], []
        """What the server and the client got, requests that failed, and what was cancelled at the server."""
        self.way = made(self, self._server)

    def _server(self, receiver):
        self._inner = receiver
        return _Server(self)

    async def receive(self, message, related=None):
        self.seen.append((json.loads(message.line), related))

    async def fail(self, number, error):
        self.failed.append((number, error))

    async def tell(self, message):
        """Send a message as the client."""
        (found,) = parsed(line(message))
        await self.way.send(found, {})

    async def say(self, message, related=None):
        """Send a message as the server."""
        (found,) = parsed(line(message))
        await self._inner.receive(found, related)

    async def give_up(self, number, error):
        """Let a request at the server get no answer."""
        await self._inner.fail(number, error)

    def asked(self, method):
        """Return what the server got of a method."""
        return [each for each in self.got if each.get("method") == method]


class _Server:
    def __init__(self, between):
        self._between = between

    async def send(self, message, headers):
        asked = json.loads(message.line)
        self._between.got.append(asked)
        answer = self._between.answers.get(asked.get("method"))
        if isinstance(answer, Exception):
            await self._between.give_up(asked["id"], answer)
        elif answer is not None and "id" in asked:
            await self._between.say({"id": asked["id"]} | answer)

    async def cancel(self, number, notification):
        self._between.cancelled.append((number, json.loads(notification.line)))
