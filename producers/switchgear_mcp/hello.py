"""The handshake with a client: what the servers say about themselves, with what the proxy adds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from switchgear_mcp import message as rpc
from switchgear_mcp.calls import no_answer
from switchgear_mcp.message import Message, Raw
from switchgear_mcp.protocol import handshake_version
from switchgear_mcp.state import ClientState
from switchgear_mcp.upstream import Upstream

HELLO_LIMIT_S: Final = 3.0
"""The longest that a client's first request waits for the servers. Clients give a server ten seconds or more to start."""
_ANYTHING: Final[dict[str, Any]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
"""What a server may be able to do that hasn't said it yet."""


async def initialized(link: ClientState, message: Message, headers: Mapping[str, str]) -> Message:
    """Connect the client to the servers. Return the answer to its ``initialize``."""
    answers = await asyncio.gather(*(_greeted(each, message, headers) for each in link.upstreams.values()))
    upstream = link.only
    if upstream is None:
        return message.answer(_together(link, message, answers))
    (answer,) = answers
    if answer is not None and "error" in answer.fields:
        upstream.hello = None
        return answer
    if answer is not None:
        link.shared.known.keep(upstream.server.name, "initialize", answer.fields["result"])
        return _with_list_changes(answer)
    if upstream.refusal is not None and upstream.refusal.challenge is not None and link.side.logs_in:
        return no_answer(message, upstream.refusal)
    upstream.late = True
    known = _last(link, upstream, message)
    if known is not None:
        return _with_list_changes(message.answer(known))
    return message.answer(_made_up(message, upstream))


def _last(link: ClientState, upstream: Upstream, message: Message) -> Raw | None:
    """Return what a server answered to the last handshake, None if this client may be too old for it."""
    known = link.shared.known.get(upstream.server.name, "initialize")
    version = rpc.plain(rpc.members(known).get("protocolVersion"))
    return known if isinstance(version, str) and version <= _version(message) else None


async def discovered(link: ClientState, message: Message, headers: Mapping[str, str]) -> Message:
    """Return the answer to ``server/discover``, which the protocol without a handshake has in place of one."""
    upstream = link.only
    if upstream is None:  # the proxy makes one server of several, in the protocol with a handshake
        return message.error(rpc.METHOD_NOT_FOUND, "Method not found")
    answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def finish(end: Message | Exception) -> None:
        if not answered.done():
            answered.set_result(_no_discovery(message, end) if isinstance(end, Exception) else end)

    asking = asyncio.ensure_future(upstream.request(message, finish, headers))
    await asyncio.wait({answered}, timeout=HELLO_LIMIT_S)
    if not answered.done():
        asking.cancel()
        # The client makes a handshake then, which is answered without the server.
        return message.error(rpc.METHOD_NOT_FOUND, f"The server {upstream.server.name} has not answered yet.")
    return _with_list_changes(answered.result())


def _no_discovery(message: Message, error: Exception) -> Message:
    """Return the error after which a client makes a handshake, unless it has to log in first."""
    answer = no_answer(message, error)
    if answer.refusal is None:
        return message.error(rpc.METHOD_NOT_FOUND, str(error))
    return answer


async def _greeted(upstream: Upstream, message: Message, headers: Mapping[str, str]) -> Message | None:
    """Return a server's answer to ``initialize``, None if it gives none in time."""
    greeting = await upstream.greet(message, headers)
    if greeting is None:
        return None
    await asyncio.wait({greeting}, timeout=HELLO_LIMIT_S)
    if not greeting.done() or greeting.cancelled():
        return None
    return greeting.result()


def _with_list_changes(answer: Message) -> Message:
    """Say that the list of tools may change, because circuits open."""
    result = answer.fields.get("result")
    found = rpc.members(result)
    capabilities = rpc.members(found.get("capabilities"))
    tools = capabilities.get("tools")
    if tools is None or rpc.plain(rpc.members(tools).get("listChanged")) is True:
        return answer
    changed = rpc.with_members(found["capabilities"], tools=rpc.with_members(tools, listChanged=True))
    return answer.changed(result=rpc.with_members(result, capabilities=changed))


def _made_up(message: Message, upstream: Upstream) -> dict[str, Any]:
    name, down = upstream.server.name, upstream.down
    why = f"The server {name} {upstream.reason}." if down else f"The server {name} has not answered yet."
    return {
        "protocolVersion": _version(message),
        "capabilities": _ANYTHING,
        "serverInfo": {"name": name, "version": "unknown"},
        "instructions": f"{why} Its tools are listed when it works.",
    }


def _version(message: Message) -> str:
    return handshake_version(rpc.plain(message.params.get("protocolVersion")))


def _together(link: ClientState, message: Message, answers: Sequence[Message | None]) -> dict[str, Any]:
    """Return what several servers say about themselves as one answer."""
    known: list[dict[str, Raw]] = []
    for upstream, answer in zip(link.upstreams.values(), answers, strict=True):
        if answer is not None and "result" in answer.fields:
            link.shared.known.keep(upstream.server.name, "initialize", answer.fields["result"])
            known.append(rpc.members(answer.fields["result"]))
            continue
        upstream.late = True
        last = _last(link, upstream, message)
        known += [] if last is None else [rpc.members(last)]
    texts = [text for each in known if (text := rpc.plain(each.get("instructions")))]
    texts += [f"The server {each.server.name} {each.reason}." for each in link.upstreams.values() if each.down]
    versions = [version for each in known if isinstance(version := rpc.plain(each.get("protocolVersion")), str)]
    found: dict[str, Any] = {
        "protocolVersion": min(versions, default=_version(message)),
        "capabilities": _capabilities(known, complete=len(known) == len(answers)),
        "serverInfo": {"name": link.shared.servers[0].name, "version": "unknown"},
    }
    return found | ({"instructions": "\n\n".join(texts)} if texts else {})


def _capabilities(known: Sequence[dict[str, Raw]], *, complete: bool) -> dict[str, Any]:
    """Return what several servers can do together. Of those that aren't there, assume everything."""
    found: dict[str, Any] = {} if complete else dict(_ANYTHING)
    for each in known:
        for name, value in rpc.members(each.get("capabilities")).items():
            had, new = found.get(name), rpc.plain(value)
            found[name] = {**had, **new} if isinstance(had, dict) and isinstance(new, dict) else new
    for name in ("tools", "prompts", "resources"):
        if name in found or name == "tools":
            found[name] = {**(found.get(name) or {}), "listChanged": True}
    return found
