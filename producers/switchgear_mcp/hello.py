"""The handshake with a client: what the servers say about themselves, put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from fastmcp.server.dependencies import fastmcp_request_ctx
from fastmcp.server.middleware import Middleware
from mcp.server.context import ServerRequestContext

from switchgear_mcp.client_link import ClientLink

Welcome = Callable[[ServerRequestContext[Any, Any], types.InitializeRequestParams], Awaitable[ClientLink]]
"""Connects a new client to the servers."""


class Hello(Middleware):
    """Answers the handshake with what the servers say about themselves."""

    def __init__(self, welcome: Welcome) -> None:
        self._welcome = welcome

    async def on_initialize(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Connect the client to the servers."""
        result = await call_next(context)
        if result is None or context.message is None:
            return result
        link = await self._welcome(request_context(), context.message.params)
        infos = [each.info for each in link.upstreams.values()]
        known = [info for info in infos if info is not None]
        update: dict[str, Any] = {"capabilities": _capabilities(known, complete=len(known) == len(infos))}
        if len(infos) == 1 and known:
            update |= {
                "server_info": known[0].server_info,
                "instructions": known[0].instructions,
                "meta": known[0].meta,
            }
        elif texts := [info.instructions for info in known if info.instructions]:
            update["instructions"] = "\n\n".join(texts)
        return result.model_copy(update=update)


def _capabilities(known: Sequence[types.InitializeResult], *, complete: bool) -> types.ServerCapabilities:
    """Return what the servers can do together. Of servers that aren't there, assume everything."""
    offered = [info.capabilities for info in known]
    everything = not complete
    resources = [each.resources for each in offered if each.resources is not None]
    found = {
        "tools": types.ToolsCapability(list_changed=True),
        "prompts": types.PromptsCapability(list_changed=True)
        if everything or any(each.prompts is not None for each in offered)
        else None,
        "resources": types.ResourcesCapability(
            list_changed=True, subscribe=everything or any(each.subscribe for each in resources)
        )
        if everything or resources
        else None,
        "logging": types.LoggingCapability()
        if everything or any(each.logging is not None for each in offered)
        else None,
        "completions": types.CompletionsCapability()
        if everything or any(each.completions is not None for each in offered)
        else None,
    }
    if len(offered) == 1 and complete:
        # Tasks are not passed on: the SDK doesn't read their results any more.
        own = {"prompts": offered[0].prompts, "resources": offered[0].resources, "tasks": None}
        return offered[0].model_copy(update=found | own)
    return types.ServerCapabilities(**found)


def request_context() -> ServerRequestContext[Any, Any]:
    """Return the SDK's context of the request that FastMCP handles now, with its parameters as they came."""
    bound = fastmcp_request_ctx.get()
    if bound is None:
        raise RuntimeError("There is no request of a client.")
    found: ServerRequestContext[Any, Any] = bound._srctx  # noqa: SLF001 - FastMCP's way to it
    return found
