"""The lists of the servers. Of the lists of tools, those are left out that would be refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from switchgear_mcp import message as rpc
from switchgear_mcp.calls import no_answer
from switchgear_mcp.errors import AnswerTooLargeError, ServerDownError, ServerSilentError, ServerStatusError
from switchgear_mcp.message import Message, Raw
from switchgear_mcp.request_headers import annotated
from switchgear_mcp.state import ClientState
from switchgear_mcp.upstream import Upstream

log: Final = logging.getLogger("switchgear.mcp_proxy")
KEYS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
LIST_LIMIT_S: Final = 8.0
"""A list waits until a server has been starting for so long. Some clients give up after ten seconds."""
FAILURES: Final = (ServerDownError, ServerSilentError, ServerStatusError, AnswerTooLargeError)
_MOST_PAGES: Final = 100
_MOST_ENTRIES: Final = 10_000
"""Of a list. The rest is left out."""


async def listed(link: ClientState, message: Message, headers: Mapping[str, str]) -> None:
    """Answer a request for a list."""
    upstream = link.only
    if upstream is None:
        await link.side.send(await _merged(link, message, headers), message.id)
        return
    method = message.method or ""
    first = "cursor" not in message.params
    if upstream.late:
        await upstream.settled(LIST_LIMIT_S)
    if upstream.late and not upstream.down:  # the client must not wait any longer
        await link.side.send(_known(link, upstream, message, first=first), message.id)
        return

    async def finish(end: Message | Exception) -> None:
        if isinstance(end, Exception):
            end = _without(link, upstream, message, end, first=first)
        elif (result := end.fields.get("result")) is not None:
            if first:
                link.shared.known.keep(upstream.server.name, method, result)
            if method == "tools/list":
                end = _shown_tools(link, upstream, end, result, first=first)
        await link.side.send(end, message.id)

    await upstream.request(message, finish, headers)


def _without(link: ClientState, upstream: Upstream, message: Message, error: Exception, *, first: bool) -> Message:
    """Return the answer to a request for a list of a server that gave none: what was there before, or the error."""
    if not upstream.works and link.shared.known.get(upstream.server.name, message.method or "") is None:
        return no_answer(message, error)
    log.warning("%s of %s shows what was there before. %s", message.method, upstream.server.name, error)
    return _known(link, upstream, message, first=first)


def _known(link: ClientState, upstream: Upstream, message: Message, *, first: bool) -> Message:
    method = message.method or ""
    empty = rpc.raw({KEYS[method]: []})
    known = link.shared.known.get(upstream.server.name, method) if first else None
    result = empty if known is None else known
    answer = message.answer(result)
    link.stale.add(upstream.server.name)
    return _shown_tools(link, upstream, answer, result, first=first) if method == "tools/list" else answer


def _shown_tools(link: ClientState, upstream: Upstream, answer: Message, result: Raw, *, first: bool) -> Message:
    """Return a page of the only server's tools with those that may be called."""
    server, found = upstream.server.name, rpc.members(result)
    tools = rpc.elements(found.get("tools"))
    if tools is None:
        return answer
    usable = link.shared.entries.usable(server, "tools/list", tools, strict=False)
    allowed = [(name, tool) for name, tool in usable if name is None or link.may_use(name)]
    _note_headers(link, server, allowed)
    names = [name for name, _ in allowed if name is not None]
    if first:
        link.tools[server], link.offered = names, frozenset()
    else:
        link.tools[server] = [*link.tools.get(server, []), *names][:_MOST_ENTRIES]
    if "nextCursor" not in found:
        link.stale.discard(server)
    link.shared.calls.remember(names)
    available = link.shared.calls.available(names, link.session_id)
    link.offered = (link.offered or frozenset()) | available
    kept = [tool for name, tool in allowed if name is None or name in available]
    if len(kept) == len(tools):
        return answer
    return answer.changed(result=rpc.with_members(result, tools=kept))


def _name(entry: Raw) -> str | None:
    found = rpc.plain(rpc.members(entry).get("name"))
    return found if isinstance(found, str) else None


async def exists(link: ClientState, name: str, headers: Mapping[str, str]) -> bool:
    """Return whether there may be a tool with this name. The servers are asked if nobody has listed their tools."""
    if link.shared.calls.knows(name):
        return True
    found = link.shared.names.inner(name)
    if found is None:
        return False
    upstream = link.upstreams[found[0]]
    if found[0] in link.stale:
        try:
            await refresh(link, upstream, headers)
        except Exception:  # noqa: BLE001 - the call itself shows what is wrong, behind the circuit
            return True
    return name in link.tools.get(found[0], ())


async def refresh(link: ClientState, upstream: Upstream, headers: Mapping[str, str]) -> list[Raw]:
    """List the tools of a server.

    Raises:
        Exception: There is no list. See Upstream.request.
    """
    entries = await pages(upstream, "tools/list", headers)
    if link.only is None:
        link.shared.known.keep(upstream.server.name, "tools/list", rpc.raw({"tools": entries}))
    return _taken(link, upstream.server.name, entries)


def _taken(link: ClientState, server: str, entries: Sequence[Raw]) -> list[Raw]:
    """Note the tools of a server. Return those that this client may use, with the names that it knows."""
    usable = link.shared.entries.usable(server, "tools/list", entries, strict=link.only is None)
    shown = [(link.shared.names.outer(server, name), name, entry) for name, entry in usable if name is not None]
    allowed = [(outer, name, entry) for outer, name, entry in shown if link.may_use(outer)]
    _note_headers(link, server, [(name, entry) for _, name, entry in allowed])
    link.tools[server] = [outer for outer, _, _ in allowed]
    link.stale.discard(server)
    link.shared.calls.remember(link.tools[server])
    return [entry if outer == name else rpc.with_members(entry, name=outer) for outer, name, entry in allowed]


def _note_headers(link: ClientState, server: str, tools: Sequence[tuple[str | None, Raw]]) -> None:
    for name, tool in tools:
        if name is not None and (found := annotated(tool)):
            link.shared.annotated[server, name] = found


class ListError(Exception):
    """A server answered a request for a list with an error.

    Args:
        answer: The answer.
    """

    def __init__(self, answer: Message) -> None:
        error = rpc.members(answer.fields.get("error"))
        super().__init__(str(rpc.plain(error.get("message"))))
        self.code = rpc.plain(error.get("code"))


async def pages(upstream: Upstream, method: str, headers: Mapping[str, str]) -> list[Raw]:
    """Return all entries of a server's list. Of one that is endless, the rest is left out.

    Raises:
        ListError: The server answered with an error.
        Exception: It gave no answer. See Upstream.request.
    """
    found: list[Raw] = []
    cursor: Raw | None = None
    for _ in range(_MOST_PAGES):
        answer = await upstream.ask(method, None if cursor is None else {"cursor": cursor}, headers)
        if "error" in answer.fields:
            raise ListError(answer)
        page = rpc.members(answer.fields.get("result"))
        found += rpc.elements(page.get(KEYS[method])) or []
        cursor = page.get("nextCursor")
        if not isinstance(rpc.plain(cursor), str) or len(found) >= _MOST_ENTRIES:
            break
    return found[:_MOST_ENTRIES]


async def _merged(link: ClientState, message: Message, headers: Mapping[str, str]) -> Message:
    """Return the whole lists of several servers as one."""
    method = message.method or ""
    parts = await asyncio.gather(*(_part(link, each, method, headers) for each in link.upstreams.values()))
    entries = [entry for part in parts for entry in part]
    if method == "tools/list":
        names = [name for entry in entries if (name := _name(entry)) is not None]
        link.offered = link.shared.calls.available(names, link.session_id)
        entries = [entry for entry in entries if _name(entry) in link.offered]
    return message.answer({KEYS[method]: entries})


async def _part(link: ClientState, upstream: Upstream, method: str, headers: Mapping[str, str]) -> Sequence[Any]:
    """Return a server's whole list, with the names that clients know. Of a server that isn't there, the last one."""
    server = upstream.server.name
    if upstream.late:
        await upstream.settled(LIST_LIMIT_S)
    if upstream.late and not upstream.down:  # the others must not wait for it
        return _last(link, server, method)
    try:
        if method == "tools/list":
            return await refresh(link, upstream, headers)
        entries = await pages(upstream, method, headers)
    except (ListError, *FAILURES) as error:
        if isinstance(error, ListError) and error.code == rpc.METHOD_NOT_FOUND:
            return []
        log.warning("%s of %s shows what was there before. %s", method, server, error)
        return _last(link, server, method)
    link.shared.known.keep(server, method, rpc.raw({KEYS[method]: entries}))
    return _named(link, server, method, entries)


def _last(link: ClientState, server: str, method: str) -> Sequence[Any]:
    entries = rpc.elements(rpc.members(link.shared.known.get(server, method)).get(KEYS[method])) or []
    if method != "tools/list":
        return _named(link, server, method, entries)
    found = _taken(link, server, entries)
    link.stale.add(server)
    return found


def _named(link: ClientState, server: str, method: str, entries: Sequence[Raw]) -> Sequence[Any]:
    """Return the entries of a list that can be shown, with the names that clients know, and note whose they are."""
    names = link.shared.names
    found = [entry for _, entry in link.shared.entries.usable(server, method, entries, strict=True)]
    if method == "prompts/list":
        return [rpc.with_members(entry, name=names.outer(server, _name(entry) or "")) for entry in found]
    for entry in found:
        fields = rpc.members(entry)
        names.owns(server, str(rpc.plain(fields.get("uri") or fields.get("uriTemplate"))))
    return found
