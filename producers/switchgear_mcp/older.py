"""A server that has only the protocol without a handshake, for clients that make one.

If a server refuses ``initialize`` and answers ``server/discover``, its answers are translated: the handshake, what the client sets once
and the server wants in each request, and input that the server asks for in a result and the client expects as a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from switchgear.runtime.tasks import Tasks
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import NO_HEADERS, Channel, Receiver
from switchgear_mcp.message import Id, Message, Raw
from switchgear_mcp.protocol import DISCOVER_S, NO_HANDSHAKE, PREFIX, VERSION_KEY, handshake_version

log: Final = logging.getLogger("switchgear.mcp_proxy")
_OWN: Final = "switchgear-older-"
_CHANGES: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
_DROPPED: Final = frozenset({"notifications/initialized", "notifications/roots/list_changed"})


class ForOlderClients:
    """A way to a server that translates if it has to. See :class:`~switchgear_mcp.channel.Channel`.

    Args:
        receiver: Gets the server's messages.
        inner: Makes the way to the server, for a receiver.
    """

    def __init__(self, receiver: Receiver, inner: Callable[[Receiver], Channel]) -> None:
        self._receiver = receiver
        self._inner = inner(self)
        self._hello: Message | None = None
        self._refusal: Message | None = None
        """The answer to the handshake, while the server is asked for the other protocol."""
        self._meta: dict[str, Raw] | None = None
        """What is in each request. None: the server makes handshakes, or hasn't answered one."""
        self._numbers = 0
        self._open: dict[Id, _Asked] = {}
        """Requests by the ids that the server knows."""
        self._questions: dict[Id, asyncio.Future[Message]] = {}
        self._listening: Id = None
        self._wanted: dict[str, Any] = {}
        """What changes the client wants to know."""
        self._tasks = Tasks()

    async def run(self, opened: Callable[[], None]) -> None:
        """Connect, and read until the connection ends."""
        try:
            await self._inner.run(opened)
        finally:
            self._tasks.cancel()

    async def described(self, error: BaseException | None) -> str:
        """Return why the connection ended."""
        return await self._inner.described(error)

    # -- what the client sends ----------------------------------------------------------------------------------------

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message, translated if the server needs that."""
        if message.method == "initialize":
            self._hello, self._meta = message, None
        if self._meta is None:
            await self._inner.send(message, headers)
        elif message.is_answer:
            question = self._questions.pop(message.id, None)
            if question is not None and not question.done():
                question.set_result(message)
        elif not message.is_request:
            if message.method == "notifications/initialized":
                await self._listen()
            elif message.method not in _DROPPED:
                await self._inner.send(message, headers)
        elif (done := await self._set(message)) is not None:
            await self._receiver.receive(done)
        else:
            await self._send(_Asked(message, headers), message)

    async def cancel(self, number: Id, notification: Message) -> None:
        """Tell the server that a request is cancelled."""
        sent = next((key for key, each in self._open.items() if each.message.id == number), number)
        asked = self._open.pop(sent, None)
        if asked is not None and asked.asking is not None:
            asked.asking.cancel()
        if sent != number:
            params = rpc.with_members(notification.fields.get("params"), requestId=sent)
            notification = notification.changed(params=params)
        await self._inner.cancel(sent, notification)

    async def _send(self, asked: _Asked, message: Message) -> None:
        self._open[message.id] = asked
        meta = rpc.with_members(message.params.get("_meta"), **(self._meta or {}))
        await self._inner.send(
            message.changed(params=rpc.with_members(message.fields.get("params"), _meta=meta)), asked.headers
        )

    async def _set(self, message: Message) -> Message | None:
        """Note what a request sets. Return its answer, None if the server answers it."""
        assert self._meta is not None
        if message.method == "logging/setLevel":
            self._meta[f"{PREFIX}logLevel"] = message.params.get("level", Raw(b"null"))
        elif message.method in {"resources/subscribe", "resources/unsubscribe"}:
            uris = self._wanted.setdefault("resourceSubscriptions", [])
            uri = rpc.plain(message.params.get("uri"))
            if message.method == "resources/subscribe":
                uris.append(uri)
            elif uri in uris:
                uris.remove(uri)
            await self._listen()
        elif message.method != "ping":
            return None
        return message.answer({})

    async def _listen(self) -> None:
        """Ask for the changes that the client wants, in place of those that it wanted before."""
        if self._listening is not None:
            number, self._listening = self._listening, None
            await self._inner.cancel(number, rpc.notification("notifications/cancelled", {"requestId": number}))
        if any(self._wanted.values()):
            request = rpc.request(self._number(), "subscriptions/listen", {"notifications": self._wanted})
            self._listening = request.id
            await self._send(_Asked(request, NO_HEADERS), request)

    def _number(self) -> str:
        self._numbers += 1
        return f"{_OWN}{self._numbers}"

    # -- what the server sends ----------------------------------------------------------------------------------------

    async def receive(self, message: Message, related: Id = None) -> None:
        """Take a message of the server."""
        if self._hello is not None and message.is_answer and self._meta is None:
            await self._greeted(message, related)
        elif self._meta is None:
            await self._receiver.receive(message, related)
        elif message.is_answer:
            await self._answered(message, related)
        elif message.method != "notifications/subscriptions/acknowledged":
            asked = self._open.get(related)
            await self._receiver.receive(message, related if asked is None else asked.message.id)

    async def fail(self, number: Id, error: Exception) -> None:
        """Note that a request gets no answer."""
        asked = self._open.pop(number, None)
        if self._refusal is not None and str(number).startswith(_OWN):
            refusal, self._refusal = self._refusal, None
            await self._receiver.receive(refusal)
        elif number != self._listening:
            await self._receiver.fail(number if asked is None else asked.message.id, error)

    def skip(self, why: str) -> None:
        """Note something that is not a message."""
        self._receiver.skip(why)

    async def _greeted(self, message: Message, related: Id) -> None:
        """Take the answer to the handshake, or to the question that follows it when the server refuses."""
        hello = self._hello
        assert hello is not None
        if self._refusal is not None and str(message.id).startswith(_OWN):
            refusal, self._refusal = self._refusal, None
            result = rpc.members(message.fields.get("result"))
            if NO_HANDSHAKE in (rpc.plain(result.get("supportedVersions")) or ()):
                self._meta = _meta_of(hello)
                await self._receiver.receive(hello.answer(self._said(hello, result)))
            else:
                await self._receiver.receive(refusal)
        elif message.id == hello.id and "error" in message.fields and self._refusal is None:
            self._refusal = message
            self._tasks.start(self._refuse_later())
            await self._inner.send(
                rpc.request(self._number(), "server/discover", {"_meta": _meta_of(hello)}), NO_HEADERS
            )
        else:
            if message.id == hello.id:
                self._hello = None
            await self._receiver.receive(message, related)

    async def _refuse_later(self) -> None:
        await asyncio.sleep(DISCOVER_S)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            self._hello = None
            await self._receiver.receive(refusal)

    def _said(self, hello: Message, result: Mapping[str, Raw]) -> dict[str, Any]:
        """Return what the server says about itself, as the answer to a handshake."""
        asked = rpc.plain(hello.params.get("protocolVersion"))
        capabilities = rpc.members(result.get("capabilities"))
        for kind, change in _CHANGES.items():
            if rpc.plain(rpc.members(capabilities.get(kind)).get("listChanged")) is True:
                self._wanted[change] = True
        info = rpc.members(result.get("_meta")).get(f"{PREFIX}serverInfo", {"name": "unknown", "version": "unknown"})
        found = {
            "protocolVersion": handshake_version(asked),
            "capabilities": result.get("capabilities", {}),
            "serverInfo": info,
        }
        return found | ({"instructions": result["instructions"]} if "instructions" in result else {})

    async def _answered(self, message: Message, related: Id) -> None:
        asked = self._open.pop(message.id, None)
        if message.id == self._listening or asked is None:
            return
        result = rpc.members(message.fields.get("result"))
        if rpc.plain(result.get("resultType")) != "input_required":
            number = asked.message.fields["id"]
            await self._receiver.receive(
                message if message.id == asked.message.id else message.changed(id=number), related
            )
            return
        again = self._number()
        self._open[again] = asked  # so that it can be cancelled
        asked.asking = self._tasks.start(self._ask(again, asked, result))

    async def _ask(self, again: str, asked: _Asked, result: Mapping[str, Raw]) -> None:
        """Ask the client for what the server wants, and send the request again with that."""
        answers: dict[str, Raw] = {}
        for key, each in rpc.members(result.get("inputRequests")).items():
            wanted = rpc.members(each)
            question = rpc.request(self._number(), str(rpc.plain(wanted.get("method"))), wanted.get("params"))
            answered = self._questions[question.id] = asyncio.get_running_loop().create_future()
            await self._receiver.receive(question, asked.message.id)
            answer = await answered
            if "result" not in answer.fields:
                self._open.pop(again, None)
                await self._receiver.receive(answer.changed(id=asked.message.fields["id"]))
                return
            answers[key] = answer.fields["result"]
        more: dict[str, Any] = {"inputResponses": answers} if answers else {}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        params = rpc.with_members(asked.message.fields.get("params"), **more)
        asked.asking = None
        await self._send(asked, asked.message.changed(id=again, params=params))


class _Asked:
    """A request of the client, and what asks it for input meanwhile."""

    __slots__ = ("asking", "headers", "message")

    def __init__(self, message: Message, headers: Mapping[str, str]) -> None:
        self.message, self.headers = message, headers
        self.asking: asyncio.Future[None] | None = None


def _meta_of(hello: Message) -> dict[str, Raw]:
    """Return what is in each request, from what the client said in its handshake."""
    return {
        VERSION_KEY: rpc.raw(NO_HANDSHAKE),
        f"{PREFIX}clientInfo": hello.params.get("clientInfo", Raw(b"{}")),
        f"{PREFIX}clientCapabilities": hello.params.get("capabilities", Raw(b"{}")),
    }
