"""Requests to a proxy of several servers, which become one: each goes to the server that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from switchgear_mcp import message as rpc
from switchgear_mcp.connection import Finish
from switchgear_mcp.message import Message
from switchgear_mcp.state import ClientState
from switchgear_mcp.upstream import Upstream


async def passed(link: ClientState, message: Message, headers: Mapping[str, str]) -> None:
    """Pass a request on to its server: by the name in front, by what was listed, else to one after the other."""
    params, method = message.params, message.method
    reference = rpc.members(params.get("ref"))
    if method == "logging/setLevel":
        await _to_all(link, message, headers)
    elif method == "prompts/get" or (method == "completion/complete" and "name" in reference):
        name = rpc.plain((params if method == "prompts/get" else reference).get("name"))
        found = link.shared.names.inner(str(name))
        if found is None:
            text = f"{name} belongs to no server of this proxy."
            await link.side.send(message.error(rpc.INVALID_PARAMS, text), message.id)
            return
        server, inner = found
        changed = {"name": inner} if method == "prompts/get" else {"ref": rpc.with_members(params["ref"], name=inner)}
        message = message.changed(params=rpc.with_members(message.fields["params"], **changed))
        await link.upstreams[server].request(message, link.finish(message), headers)
    else:
        uri = rpc.plain((reference if method == "completion/complete" else params).get("uri"))
        owner = link.shared.names.owner_of(uri) if isinstance(uri, str) else None
        asked = list(link.upstreams.values()) if owner is None else [link.upstreams[owner]]
        await asked[0].request(message, _or_next(link, message, headers, asked[1:]), headers)


def _or_next(link: ClientState, message: Message, headers: Mapping[str, str], others: Sequence[Upstream]) -> Finish:
    """Return what passes a request to the next server if this one has no such thing."""

    async def finish(end: Message | Exception) -> None:
        if others and (isinstance(end, Exception) or "error" in end.fields):
            await others[0].request(message, _or_next(link, message, headers, others[1:]), headers)
        else:
            await link.finish(message)(end)

    return finish


async def _to_all(link: ClientState, message: Message, headers: Mapping[str, str]) -> None:
    """Pass a request to all servers that can be used. The client gets an empty answer when all have answered."""

    async def one(upstream: Upstream) -> None:
        done = asyncio.Event()

        async def finish(_end: Message | Exception) -> None:
            done.set()

        await upstream.request(message, finish, headers)
        await done.wait()

    await asyncio.gather(*(one(each) for each in link.upstreams.values() if not each.down))
    await link.side.send(message.answer({}), message.id)
