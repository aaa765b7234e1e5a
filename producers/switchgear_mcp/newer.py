"""A server that has only the protocols with a handshake, for clients that make none.

A client that speaks both makes the handshake itself, after the server has refused ``server/discover``. For one that goes on without it,
the proxy makes the handshake, and translates: what the server asks a client for becomes a result that wants input, and changes go to the
client's subscriptions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import NO_HEADERS, Channel, Receiver
from switchgear_mcp.message import Id, Message, Raw
from switchgear_mcp.protocol import DISCOVER_S, LATEST_HANDSHAKE, NO_HANDSHAKE, PREFIX, SUBSCRIPTION_KEY, VERSION_KEY

_LEVEL: Final = f"{PREFIX}logLevel"
_OWN: Final = "switchgear-newer-"
_MOST_CALLS: Final = 1_000
_QUESTIONS: Final = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_CACHED: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"}
)
_FILTERS: Final = {
    f"notifications/{kind}/list_changed": f"{kind}ListChanged" for kind in ("tools", "prompts", "resources")
}
_UPDATED: Final = "notifications/resources/updated"


class _Call:
    """A request of the client, from its first attempt to its end.

    Attributes:
        number: Its id at the server, that of the first attempt.
        token: Its progress token at the server, likewise.
        client: The attempt that waits for an answer now. None: the client has been asked for input.
        questions: What the server has asked and the client hasn't been asked yet.
        answer: The server's answer, if it came while the client was asked.
    """

    __slots__ = ("answer", "client", "number", "questions", "token")

    def __init__(self, message: Message) -> None:
        self.number, self.questions = message.id, deque[Message]()
        self.token: Id = rpc.plain(message.meta.get("progressToken"))
        self.client: Message | None = message
        self.answer: Message | None = None


class ForNewerClients:
    """A way to a server that translates if it has to. See :class:`~switchgear_mcp.channel.Channel`.

    Args:
        receiver: Gets the server's messages.
        inner: Makes the way to the server, for a receiver.
    """

    def __init__(self, receiver: Receiver, inner: Callable[[Receiver], Channel]) -> None:
        self._receiver, self._inner = receiver, inner(self)
        self._passes = self._refused = False
        """All messages pass as they are; the server has refused ``server/discover``."""
        self._said: dict[str, Raw] | None = None
        """The server's answer to the proxy's own handshake. None: nothing is translated."""
        self._discovering: Id = None
        self._opening = asyncio.Lock()
        self._numbers = 0
        self._own: dict[Id, asyncio.Future[Message]] = {}
        self._calls = BoundedDict[Id, _Call](_MOST_CALLS)
        self._asked = BoundedDict[str, tuple[_Call, Message]](_MOST_CALLS)
        """By the state that the client gives back, the call and the server's question."""
        self._listens: dict[Id, tuple[Raw, dict[str, Raw]]] = {}
        self._level: Raw | None = None

    async def run(self, opened: Callable[[], None]) -> None:
        """Connect, and read until the connection ends."""
        try:
            await self._inner.run(opened)
        finally:
            for each in self._own.values():
                each.cancel()

    async def described(self, error: BaseException | None) -> str:
        """Return why the connection ended."""
        return await self._inner.described(error)

    # -- what the client sends ----------------------------------------------------------------------------------------

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message, translated if the server needs that."""
        if message.method == "initialize":
            self._passes = True
        elif not self._passes and self._said is None and VERSION_KEY in message.meta:
            if message.method == "server/discover":
                self._discovering = message.id
            else:
                async with self._opening:
                    if not self._passes and self._said is None:
                        await self._open(message, headers)
        if self._said is None:
            await self._inner.send(message, headers)
        elif message.is_request:
            await self._request(message, headers)
        else:
            await self._inner.send(_plain(message), headers)

    async def cancel(self, number: Id, notification: Message) -> None:
        """Tell the server that a request is cancelled."""
        if self._listens.pop(number, None) is not None:
            return
        call = self._call_of(number)
        if call is not None:
            del self._calls[call.number]
            if call.number != number:
                params = rpc.with_members(notification.fields.get("params"), requestId=call.number)
                notification = notification.changed(params=params)
                number = call.number
        await self._inner.cancel(number, notification)

    async def _open(self, message: Message, headers: Mapping[str, str]) -> None:
        """Find out which protocol the server has, and make the handshake if it has the older ones."""
        if not self._refused:
            with suppress(Exception):  # it has no answer: the handshake shows if the server is there
                async with asyncio.timeout(DISCOVER_S):
                    meta = {key: value for key, value in message.meta.items() if key.startswith(PREFIX)}
                    self._passes = "result" in (await self._ask("server/discover", {"_meta": meta}, headers)).fields
            if self._passes:
                return
        hello = {
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": message.meta.get(f"{PREFIX}clientCapabilities", {}),
            "clientInfo": message.meta.get(f"{PREFIX}clientInfo", {"name": "unknown", "version": "unknown"}),
        }
        try:
            answer = await self._ask("initialize", hello, headers)
        except Exception:  # noqa: BLE001 - the request itself shows what is wrong
            self._passes = True
            return
        if "result" in answer.fields:
            self._said = rpc.members(answer.fields["result"])
            await self._inner.send(rpc.notification("notifications/initialized"), headers)
        else:
            self._passes = True

    async def _ask(self, method: str, params: Any, headers: Mapping[str, str] = NO_HEADERS) -> Message:
        """Send a request of the proxy, and return the answer.

        Raises:
            Exception: There is none.
        """
        request = rpc.request(self._number(), method, params)
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._own[request.id] = answered
        try:
            await self._inner.send(request, headers)
            return await answered
        finally:
            del self._own[request.id]

    async def _request(self, message: Message, headers: Mapping[str, str]) -> None:
        state = rpc.plain(message.params.get("requestState"))
        if message.method == "server/discover":
            await self._end(message, rpc.raw(self._discovered()))
        elif message.method == "subscriptions/listen":
            await self._listen(message, headers)
        elif isinstance(state, str) and state in self._asked:
            await self._go_on(message, *self._asked.pop(state))
        else:
            await self._set_level(message.meta.get(_LEVEL), headers)
            self._calls[message.id] = _Call(message)
            await self._inner.send(_plain(message), headers)

    def _discovered(self) -> dict[str, Any]:
        assert self._said is not None
        found: dict[str, Any] = {
            "supportedVersions": [NO_HANDSHAKE],
            "capabilities": self._said.get("capabilities", {}),
        }
        found["_meta"] = {f"{PREFIX}serverInfo": self._said.get("serverInfo", {})}
        return found | ({"instructions": self._said["instructions"]} if "instructions" in self._said else {})

    async def _set_level(self, level: Raw | None, headers: Mapping[str, str]) -> None:
        capabilities = rpc.members((self._said or {}).get("capabilities"))
        if (
            level is None
            or "logging" not in capabilities
            or (self._level is not None and bytes(level) == bytes(self._level))
        ):
            return
        self._level = level
        with suppress(Exception):  # the call goes on without it
            await self._ask("logging/setLevel", {"level": level}, headers)

    async def _listen(self, message: Message, headers: Mapping[str, str]) -> None:
        """Begin a subscription, and say that it has begun."""
        wanted = rpc.members(message.params.get("notifications"))
        number = message.fields["id"]
        self._listens[message.id] = number, wanted
        told = {"_meta": {SUBSCRIPTION_KEY: number}, "notifications": wanted}
        await self._receiver.receive(rpc.notification("notifications/subscriptions/acknowledged", told), message.id)
        for uri in rpc.plain(wanted.get("resourceSubscriptions")) or ():
            with suppress(Exception):  # the client then gets no changes of it
                await self._ask("resources/subscribe", {"uri": uri}, headers)

    # -- input that the server wants ----------------------------------------------------------------------------------

    async def _question(self, question: Message, related: Id) -> None:
        """Take a request of the server: the client is asked in the answer to its own."""
        if question.method == "ping":
            await self._inner.send(question.answer({}), NO_HEADERS)
            return
        call = self._calls.get(related) or next(reversed(self._calls.values()), None)
        if question.method not in _QUESTIONS or call is None:
            await self._inner.send(question.error(rpc.METHOD_NOT_FOUND, "Method not found"), NO_HEADERS)
            return
        call.questions.append(question)
        await self._ask_client(call)

    async def _ask_client(self, call: _Call) -> None:
        if call.client is None or not call.questions:
            return
        question, asked, call.client = call.questions.popleft(), call.client, None
        state = self._number()
        self._asked[state] = call, question
        wanted: dict[str, Any] = {"method": question.method, "params": question.fields.get("params", {})}
        result = {"resultType": "input_required", "inputRequests": {"input": wanted}, "requestState": state}
        await self._receiver.receive(asked.answer(result))

    async def _go_on(self, message: Message, call: _Call, question: Message) -> None:
        """Give the client's input to the server."""
        call.client = message
        given = rpc.members(message.params.get("inputResponses")).get("input")
        answer = (
            question.error(rpc.INVALID_REQUEST, "The client gave no input.")
            if given is None
            else question.answer(given)
        )
        if call.answer is not None:
            await self._done(call, call.answer)
            return
        await self._inner.send(answer, NO_HEADERS)
        await self._ask_client(call)

    # -- what the server sends ----------------------------------------------------------------------------------------

    async def receive(self, message: Message, related: Id = None) -> None:
        """Take a message of the server."""
        if message.is_answer and message.id in self._own:
            answered = self._own[message.id]
            if not answered.done():
                answered.set_result(message)
        elif self._said is None:
            if self._discovering is not None and message.is_answer and message.id == self._discovering:
                self._discovering, self._refused = None, "error" in message.fields
                self._passes = not self._refused
            await self._receiver.receive(message, related)
        elif message.is_answer:
            call = self._calls.get(message.id)
            if call is not None and call.client is None:
                call.answer = message
            elif call is not None:
                await self._done(call, message)
        elif message.is_request:
            await self._question(message, related)
        elif message.method in _FILTERS or message.method == _UPDATED:
            await self._changed(message)
        else:
            await self._noted(message, related)

    async def fail(self, number: Id, error: Exception) -> None:
        """Note that a request gets no answer."""
        if number in self._own:
            if not self._own[number].done():
                self._own[number].set_exception(error)
            return
        if self._discovering is not None and number == self._discovering:
            self._discovering, self._refused = None, True
        call = self._calls.pop(number, None)
        if call is None or call.client is not None:
            await self._receiver.fail(number if call is None or call.client is None else call.client.id, error)

    def skip(self, why: str) -> None:
        """Note something that is not a message."""
        self._receiver.skip(why)

    async def _done(self, call: _Call, answer: Message) -> None:
        self._calls.pop(call.number, None)
        assert call.client is not None
        if "result" in answer.fields:
            await self._end(call.client, answer.fields["result"], answer)
        else:
            await self._receiver.receive(answer.changed(id=call.client.fields["id"]), call.client.id)

    async def _end(self, asked: Message, result: Raw, answer: Message | None = None) -> None:
        """Answer a request of the client with what a result has to have without a handshake."""
        found = rpc.members(result)
        needed: dict[str, Any] = {"resultType": "complete"}
        if asked.method in _CACHED:
            needed |= {"ttlMs": 0, "cacheScope": "private"}
        more = {key: value for key, value in needed.items() if key not in found}
        number, whole = asked.fields["id"], rpc.with_members(result, **more) if more else result
        done = asked.answer(whole) if answer is None else answer.changed(id=number, result=whole)
        await self._receiver.receive(done, asked.id)

    async def _noted(self, message: Message, related: Id) -> None:
        """Pass a notification on, with the id and the progress token of the attempt that waits now."""
        call = self._calls.get(related)
        if message.method == "notifications/progress":
            token = rpc.plain(message.params.get("progressToken"))
            call = next((each for each in self._calls.values() if each.token == token), call)
            now = None if call is None or call.client is None else call.client.meta.get("progressToken")
            if now is not None and rpc.plain(now) != token:
                message = message.changed(params=rpc.with_members(message.fields["params"], progressToken=now))
        await self._receiver.receive(message, related if call is None or call.client is None else call.client.id)

    async def _changed(self, message: Message) -> None:
        """Pass a change on to the subscriptions that want it."""
        for number, (given, wanted) in list(self._listens.items()):
            uris = rpc.plain(wanted.get("resourceSubscriptions")) or ()
            if message.method == _UPDATED:
                wants = rpc.plain(message.params.get("uri")) in uris
            else:
                wants = rpc.plain(wanted.get(_FILTERS[message.method or ""])) is True
            if wants:
                meta = rpc.with_members(message.params.get("_meta"), **{SUBSCRIPTION_KEY: given})
                params = rpc.with_members(message.fields.get("params"), _meta=meta)
                await self._receiver.receive(message.changed(params=params), number)

    def _call_of(self, number: Id) -> _Call | None:
        """Return the call whose attempt has an id."""
        return next(
            (each for each in self._calls.values() if each.client is not None and each.client.id == number), None
        )

    def _number(self) -> str:
        self._numbers += 1
        return f"{_OWN}{self._numbers}"


def _plain(message: Message) -> Message:
    """Return a message without what only the protocol without a handshake has."""
    meta = {key: value for key, value in message.meta.items() if not key.startswith(PREFIX)}
    params = {
        key: value for key, value in message.params.items() if key not in {"_meta", "inputResponses", "requestState"}
    }
    return message.changed(params=params | ({"_meta": meta} if meta else {}))
