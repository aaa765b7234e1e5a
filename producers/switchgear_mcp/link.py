"""A client of the proxy: what it sends goes to the servers, and what the servers send goes to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from switchgear.integrations.tool_calls import RefusedCall, StartedCall
from switchgear.runtime.tasks import Tasks
from switchgear_mcp import hello, lists, several
from switchgear_mcp import message as rpc
from switchgear_mcp.calls import failed_call, failed_result, says_failed
from switchgear_mcp.connection import Finish
from switchgear_mcp.message import Id, Message, Raw
from switchgear_mcp.protocol import SUBSCRIPTION_KEY, VERSION_HEADER
from switchgear_mcp.request_headers import of_arguments
from switchgear_mcp.state import ClientState, Shared, Side
from switchgear_mcp.upstream import Client, Upstream
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.ids import mint_metric_id

log: Final = logging.getLogger("switchgear.mcp_proxy")
GRACE_S: Final = 0.05
"""A message of the client waits this long for the one before it, so that the order stays."""
LIST_CHANGED: Final = tuple(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class Link(ClientState):
    """One client, with its own connection to each server.

    Args:
        shared: What all clients share.
        side: Sends to the client.
        upstreams: Returns its servers.
        session_id: Names the client for the limits of callers. None: a new name. Empty: it has no session.
    """

    def __init__(
        self,
        shared: Shared,
        side: Side,
        upstreams: Callable[[Client], dict[str, Upstream]],
        session_id: str | None = None,
    ) -> None:
        super().__init__(shared, side)
        self.session_id = mint_metric_id() if session_id is None else session_id or None
        self.upstreams = upstreams(self)
        self.greeted = False
        """The client has got its answer to the handshake."""
        self._taking: dict[Id, asyncio.Task[Any]] = {}
        """Requests that wait for something before they are sent."""
        self._calls: dict[Id, StartedCall] = {}
        self._asked: dict[Id, tuple[Upstream, Raw]] = {}
        """Requests of servers that the client has not answered, with the ids that the servers know."""
        self._orphans: set[Id] = set()
        """Those whose servers have gone."""
        self._tasks = Tasks()

    async def close(self) -> None:
        """End the connections to the servers."""
        self._tasks.cancel()
        await asyncio.gather(*(each.close() for each in self.upstreams.values()), return_exceptions=True)

    # -- what the client sends ----------------------------------------------------------------------------------------

    async def handle(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        """Take a message of the client. It goes on in the background if it has to wait."""
        task = self._tasks.start(self._take(message, headers or {}))
        await asyncio.wait({task}, timeout=GRACE_S)

    async def _take(self, message: Message, headers: Mapping[str, str]) -> None:
        try:
            if message.is_answer:
                await self._answered(message)
            elif not message.is_request:
                await self._notified(message, headers)
            else:
                task = asyncio.current_task()
                assert task is not None
                self._taking[message.id] = task
                try:
                    await self._requested(message, headers)
                finally:
                    if self._taking.get(message.id) is task:
                        del self._taking[message.id]
        except ConnectionError:
            log.debug("The client has gone.")
        except Exception:
            log.exception("a message of the client could not be passed on")
            if message.is_request:
                await self.side.send(message.error(rpc.INTERNAL_ERROR, "The proxy failed."), message.id)

    async def _requested(self, message: Message, headers: Mapping[str, str]) -> None:
        method = message.method
        if method == "tools/call":
            await self._call(message, headers)
        elif method == "initialize":
            await self.side.send(await hello.initialized(self, message, headers), message.id)
            self.greeted = True
        elif method == "server/discover":
            await self.side.send(await hello.discovered(self, message, headers), message.id)
        elif method in lists.KEYS:
            await lists.listed(self, message, headers)
        elif method == "ping" and (self.only is None or self.only.down):
            await self.side.send(message.answer({}), message.id)
        else:
            if method == "subscriptions/listen":
                self._listen(message)
            await self._pass(message, headers)

    async def _pass(self, message: Message, headers: Mapping[str, str]) -> None:
        upstream = self.only
        if upstream is None:
            await several.passed(self, message, headers)
        else:
            await upstream.request(message, self.finish(message), headers)

    async def _answered(self, message: Message) -> None:
        if message.id in self._orphans:
            self._orphans.discard(message.id)
            return
        asked = self._asked.pop(message.id, None)
        if asked is not None:
            upstream, number = asked
            known = bytes(message.fields["id"]) == bytes(number)
            await upstream.notify(message if known else message.changed(id=number))

    async def _notified(self, message: Message, headers: Mapping[str, str]) -> None:
        if message.method == "notifications/cancelled":
            await self._cancelled(message)
            return
        for upstream in self.upstreams.values():
            await upstream.notify(message, headers)

    async def _cancelled(self, message: Message) -> None:
        params = message.params
        number, reason = rpc.plain(params.get("requestId")), rpc.plain(params.get("reason"))
        await self.cancel(number, message, reason)

    async def cancel(self, number: Id, message: Message, reason: object = None) -> None:
        """Cancel a request of the client, which gets no answer.

        Args:
            number: Its id.
            message: The notification for the server.
            reason: Why, as the client says.
        """
        waiting = self._taking.get(number)
        found = False
        for upstream in self.upstreams.values():
            found = found or await upstream.cancel(number, message) is not None
        if not found and waiting is None and self.only is not None:
            await self.only.notify(message)
        self.listens.pop(number, None)
        call = self._calls.pop(number, None)
        if call is not None:
            self.shared.calls.cancelled(call, reason)
        if waiting is not None:
            waiting.cancel()

    async def cancel_if_open(self, number: Id, message: Message) -> None:
        """Cancel a request if it has no answer yet."""
        if number in self._taking or any(each.has(number) for each in self.upstreams.values()):
            await self.cancel(number, message)

    # -- tool calls ---------------------------------------------------------------------------------------------------

    async def _call(self, message: Message, headers: Mapping[str, str]) -> None:
        params, calls = message.params, self.shared.calls
        name = rpc.plain(params.get("name"))
        if not isinstance(name, str):
            await self._pass(message, headers)
            return
        if len(self.shared.names.circuit(name)) > MAX_NAME_LENGTH:
            text = f"There is no tool with a name of {len(name):,} characters."
            await self.side.send(failed_result(message, text), message.id)
            return
        if not self.may_use(name):
            text = f"Unknown tool: {name[:200]!r}. The token of this client may allow others only."
            await self.side.send(failed_result(message, text), message.id)
            return
        if not await lists.exists(self, name, headers):
            await self._call_unknown(name, message, headers)
            return
        credential = headers.get("authorization") or headers.get("x-api-key")
        limited = self.principal is not None and bool(self.principal.tools)
        call = await calls.begin(
            name,
            params,
            may_use=self.may_use if limited else None,
            session_id=self.session_id,
            credential=credential,
        )
        if isinstance(call, RefusedCall):
            await self.side.send(calls.refusal(message, call, self.session_id), message.id)
            return
        self._calls[message.id] = call
        try:
            await self._send_call(call.name, message, headers, self._call_finish(message, call))
        except BaseException as error:
            if self._calls.get(message.id) is call:
                del self._calls[message.id]
            call.failed(error)
            raise

    def _call_finish(self, message: Message, call: StartedCall) -> Finish:
        async def finish(end: Message | Exception) -> None:
            if self._calls.get(message.id) is call:
                del self._calls[message.id]
            self.shared.calls.ended(call, end)
            await self.side.send(failed_call(message, end) if isinstance(end, Exception) else end, message.id)

        return finish

    async def _call_unknown(self, name: str, message: Message, headers: Mapping[str, str]) -> None:
        """Let the server answer that there is no such tool, unless the client asks again and again."""
        calls = self.shared.calls
        refused = calls.calls.unknown(name, session_id=self.session_id)
        if refused is not None:
            await self.side.send(calls.refusal(message, refused, self.session_id), message.id)
            return

        async def finish(end: Message | Exception) -> None:
            there = not isinstance(end, Exception) and not says_failed(end)
            calls.calls.unknown_ended(name, session_id=self.session_id, found=there)
            await self.side.send(failed_call(message, end) if isinstance(end, Exception) else end, message.id)

        await self._send_call(name, message, headers, finish)

    async def _send_call(self, name: str, message: Message, headers: Mapping[str, str], finish: Finish) -> None:
        found = self.shared.names.inner(name)
        if found is None:
            text = f"{name} belongs to no server of this proxy."
            await finish(message.error(rpc.INVALID_PARAMS, text))
            return
        server, inner = found
        if rpc.plain(message.params.get("name")) != inner:
            message = message.changed(params=rpc.with_members(message.fields["params"], name=inner))
        repeated = self.shared.annotated.get((server, inner))
        if repeated is not None and VERSION_HEADER not in headers:  # else the client has sent them
            headers = {**headers, **of_arguments(repeated, rpc.plain(message.params.get("arguments")))}
        await self.upstreams[server].request(message, finish, headers)

    # -- what the servers send ----------------------------------------------------------------------------------------

    async def receive(self, upstream: Upstream, message: Message, related: Id) -> None:
        """Pass a request or a notification of a server on to the client."""
        if message.is_request:
            message = self._with_free_id(upstream, message)
        elif message.method == "notifications/cancelled":
            message = self._with_known_id(upstream, message)
        elif message.method == LIST_CHANGED[0]:
            self.stale.add(upstream.server.name)
        elif message.method == "notifications/subscriptions/acknowledged":
            message = self._acknowledged(message)
        await self._send(message, related)

    async def connected(self, upstream: Upstream) -> None:
        """Let the client list everything again if a server comes later, or again: it may have changed."""
        self.stale.add(upstream.server.name)
        if self.greeted:
            for method in LIST_CHANGED:
                await self._send(rpc.notification(method))

    async def lost(self, upstream: Upstream) -> None:
        """Cancel the requests of a server that has gone, which the client has not answered."""
        for number in [number for number, (of, _) in self._asked.items() if of is upstream]:
            del self._asked[number]
            self._orphans.add(number)
            params = {"requestId": number, "reason": f"The server {upstream.server.name} has ended."}
            await self._send(rpc.notification("notifications/cancelled", params))

    async def tools_changed(self) -> None:
        """Let the client list the tools again."""
        for number in list(self.listens.values()):
            params = {"_meta": {SUBSCRIPTION_KEY: number}}
            await self._send(rpc.notification(LIST_CHANGED[0], params), rpc.plain(number))
        if self.greeted:
            await self._send(rpc.notification(LIST_CHANGED[0]))

    async def _send(self, message: Message, related: Id = None) -> None:
        try:
            await self.side.send(message, related)
        except ConnectionError:
            log.debug("The client has gone.")

    def _with_free_id(self, upstream: Upstream, message: Message) -> Message:
        number = message.fields["id"]
        if message.id in self._asked or message.id in self._orphans:
            message = message.changed(
                id=upstream.own_id() if self.only is not None else f"switchgear-{mint_metric_id()}"
            )
        self._asked[message.id] = upstream, number
        return message

    def _with_known_id(self, upstream: Upstream, message: Message) -> Message:
        number = rpc.plain(message.params.get("requestId"))
        for known, (of, theirs) in list(self._asked.items()):
            if of is upstream and rpc.plain(theirs) == number:
                del self._asked[known]
                self._orphans.add(known)
                if known != number:
                    return message.changed(params=rpc.with_members(message.fields["params"], requestId=known))
                break
        return message

    # -- subscriptions of the protocol without a handshake ------------------------------------------------------------

    def _listen(self, message: Message) -> None:
        wanted = rpc.members(message.params.get("notifications"))
        if rpc.plain(wanted.get("toolsListChanged")) is True:
            self.listens[message.id] = message.fields["id"]

    def _acknowledged(self, message: Message) -> Message:
        """Say that changes of the list of tools come, if the client wants them: the proxy has its own."""
        params = message.params
        if rpc.plain(message.meta.get(SUBSCRIPTION_KEY)) not in self.listens:
            return message
        honoured = rpc.with_members(params.get("notifications"), toolsListChanged=True)
        return message.changed(params=rpc.with_members(message.fields["params"], notifications=honoured))
