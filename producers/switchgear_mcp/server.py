"""The proxy as an MCP server: what clients ask goes to the servers behind it, tool calls through circuits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import mcp_types as types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.tools.base import Tool, ToolResult
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import PrivateAttr

from switchgear.client import Switchgear
from switchgear.integrations.fastmcp import SwitchgearMiddleware
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Principal
from switchgear_mcp import forwarding
from switchgear_mcp.client_link import ClientLink
from switchgear_mcp.errors import (
    AnswerTooLargeError,
    ServerDownError,
    ServerSilentError,
    ServerStatusError,
)
from switchgear_mcp.hello import Hello, request_context
from switchgear_mcp.listing import Inbound
from switchgear_mcp.message_size import DEFAULT_MIB, MIB
from switchgear_mcp.names import Names
from switchgear_mcp.servers import Server, UrlServer
from switchgear_mcp.upstream import Upstream, connected
from switchgear_schemas.enums import MAX_NAME_LENGTH

log: Final = logging.getLogger("switchgear.mcp_proxy")
HELLO_LIMIT_S: Final = 20.0
"""The longest that a client's first request waits for the servers. Clients give up after 30 s or later."""
_FAILURES: Final = (ServerDownError, ServerSilentError, ServerStatusError, AnswerTooLargeError)
_LINK: Final = "switchgear"
"""Where a connection's state has the link."""
_EMPTY: Final[Mapping[str, Any]] = {}
_LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


class ProxyServer(FastMCP):
    """Serves the tools, resources and prompts of the servers behind it.

    Each client gets a connection of its own to each server. Only tool calls and the list of tools are looked at, by
    SwitchgearMiddleware. Everything else passes as it is.

    Args:
        servers: The servers. With several, their tools and prompts have the server's name in front.
        gear: The client that guards the calls.
        limit_s: The longest wait for a server's answer.
        terminal_after: See SwitchgearMiddleware.
        most: The most that one message of a server may cost, see message_size.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        gear: Switchgear,
        *,
        limit_s: float = 60.0,
        terminal_after: int | None = None,
        most: int = DEFAULT_MIB * MIB,
    ) -> None:
        self.names = Names([server.name for server in servers])
        guard = SwitchgearMiddleware(gear, circuit_of=self.names.circuit, terminal_after=terminal_after)
        super().__init__(servers[0].name, middleware=[Hello(self.welcome), guard], dereference_schemas=False)
        self.servers, self.gear = servers, gear
        self.links: set[ClientLink] = set()
        self._limit_s, self._inbound = limit_s, Inbound(most)
        self._listed: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """The last list of each kind of each server, for clients that come while it is down."""
        inner = self._mcp_server
        paged, plain = types.PaginatedRequestParams, types.RequestParams
        for method in _LISTS:
            inner.add_request_handler(method, paged, self._on_list)
        inner.add_request_handler("resources/read", types.ReadResourceRequestParams, self._on_resource)
        inner.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._on_resource)
        inner.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._on_resource)
        inner.add_request_handler("prompts/get", types.GetPromptRequestParams, self._on_prompt)
        inner.add_request_handler("completion/complete", types.CompleteRequestParams, self._on_completion)
        inner.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._on_level)
        inner.add_request_handler("server/discover", plain, _no_such_method)
        inner.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, self._on_roots)

    # -- tools, which FastMCP passes through the middleware -----------------------------------------------------------

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """List the tools that may be called."""
        context = request_context()
        link = self._link(context)
        if run_middleware:
            tools: Sequence[Tool] = await super().list_tools()
            link.offered = frozenset(tool.name for tool in tools)
            return tools
        asked = context.method == "tools/list"
        await asyncio.gather(*(self._refresh(link, each, asked=asked) for each in link.upstreams.values()))
        return [ServerTool.of(name, tool) for name, tool in self.tools_of(link)]

    def tools_of(self, link: ClientLink) -> Iterator[tuple[str, types.Tool]]:
        """Yield the tools that a client may use, with the names that it knows."""
        for server, tools in link.tools.items():
            for tool in tools:
                name = self.names.outer(server, tool.name)
                if link.may_use(self.names.circuit(name)):
                    yield name, tool

    async def get_tool(self, name: str, version: Any = None) -> Tool | None:  # noqa: ARG002 - FastMCP's signature
        """Return a tool by its name, None if no server has it."""
        tools = await self.list_tools(run_middleware=False)
        return next((tool for tool in tools if tool.name == name), None)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, version: Any = None, run_middleware: bool = True
    ) -> Any:
        """Call a tool of a server, through its circuit."""
        if run_middleware:
            if len(self.names.circuit(name)) > MAX_NAME_LENGTH:
                raise ToolError(f"There is no tool with a name of {len(name):,} characters.")
            try:
                return await super().call_tool(name, arguments, version=version)
            except _FAILURES as error:
                raise ToolError(str(error)) from error
        context = request_context()
        link = self._link(context)
        if not link.may_use(self.names.circuit(name)):
            raise NotFoundError(f"Unknown tool: {name[:200]!r}. The token of this client may allow others only.")
        server, inner = self._owner(name)
        upstream = link.upstreams[server]
        params = {**(context.params or {}), "name": inner}
        if arguments or "arguments" in params:
            params["arguments"] = arguments or {}
        raw = await self._request(link, upstream, context, "tools/call", params)
        return ToolResult.from_mcp_result(types.CallToolResult.model_validate(raw))

    async def _refresh(self, link: ClientLink, upstream: Upstream, *, asked: bool) -> None:
        """Get a server's tools, if the client asks for them or they aren't known. Otherwise those of before do."""
        name = upstream.server.name
        if not asked and name in link.tools and name not in link.stale:
            return
        try:
            found = await upstream.pages("tools/list", "tools")
            self._listed[name, "tools"] = found
            link.stale.discard(name)
        except (MCPError, *_FAILURES) as error:
            if self._has_none(error):
                link.tools[name] = []
                return
            if name in link.tools:
                return
            known = self._listed.get((name, "tools"))
            if known is None:
                if asked:
                    log.warning("The tools of %s are not known. %s", name, error)
                    return
                raise  # so that a call of any name goes through a circuit
            log.warning("The tools of %s are those of before. %s", name, error)
            found = known
            link.stale.add(name)
        link.tools[name] = types.ListToolsResult.model_validate({"tools": found}).tools

    # -- everything else ----------------------------------------------------------------------------------------------

    async def _on_list(self, context: ServerRequestContext[Any, Any], _params: Any) -> Any:
        link, method, key = self._link(context), context.method, _LISTS[context.method]
        if len(link.upstreams) == 1:
            (upstream,) = link.upstreams.values()
            return await self._page(link, upstream, context, method, key)
        pages = await asyncio.gather(*(self._all(each, method, key, context) for each in link.upstreams.values()))
        return {key: [entry for page in pages for entry in page]}

    async def _page(
        self, link: ClientLink, upstream: Upstream, context: ServerRequestContext[Any, Any], method: str, key: str
    ) -> dict[str, Any]:
        """Return a page of the only server's list."""
        place = upstream.server.name, method
        try:
            page = await self._request(link, upstream, context, method, context.params)
        except _FAILURES as error:
            log.warning("%s shows what was there before. %s", method, error)
            return {key: self._listed.get(place, [])}
        if not page.get("nextCursor") and not (context.params or _EMPTY).get("cursor"):
            self._listed[place] = page[key]
        return page

    async def _all(
        self, upstream: Upstream, method: str, key: str, context: ServerRequestContext[Any, Any]
    ) -> list[dict[str, Any]]:
        """Return a server's whole list, with the server's name in the names of prompts."""
        place = upstream.server.name, method
        self._note_headers(upstream, context)
        try:
            found = await upstream.pages(method, key)
            self._listed[place] = found
        except (MCPError, *_FAILURES) as error:
            if self._has_none(error):
                return []
            log.warning("%s of %s shows what was there before. %s", method, upstream.server.name, error)
            found = self._listed.get(place, [])
        if key == "prompts":
            return [entry | {"name": self.names.outer(upstream.server.name, entry["name"])} for entry in found]
        for entry in found:
            self.names.owns(upstream.server.name, str(entry.get("uri") or entry.get("uriTemplate")))
        return found

    async def _on_resource(self, context: ServerRequestContext[Any, Any], params: Any) -> Any:
        return await self._of_owner(context, str(params.uri), context.params)

    async def _on_prompt(self, context: ServerRequestContext[Any, Any], params: Any) -> Any:
        server, inner = self._owner(params.name)
        link = self._link(context)
        return await self._relayed(link, link.upstreams[server], context, {**(context.params or {}), "name": inner})

    async def _on_completion(self, context: ServerRequestContext[Any, Any], params: Any) -> Any:
        if not isinstance(params.ref, types.PromptReference):
            return await self._of_owner(context, params.ref.uri, context.params)
        server, inner = self._owner(params.ref.name)
        link, sent = self._link(context), dict(context.params or {})
        sent["ref"] = {**sent["ref"], "name": inner}
        return await self._relayed(link, link.upstreams[server], context, sent)

    async def _on_level(self, context: ServerRequestContext[Any, Any], _params: Any) -> Any:
        link = self._link(context)
        for upstream in link.upstreams.values():
            upstream.set_level(context.params or {})
            if upstream.info is None or upstream.down or upstream.info.capabilities.logging is None:
                continue
            await self._relayed(link, upstream, context, context.params)
        return types.EmptyResult()

    async def _on_roots(self, context: ServerRequestContext[Any, Any], _params: Any) -> None:
        for upstream in self._link(context).upstreams.values():
            await upstream.notify(types.RootsListChangedNotification())

    async def _of_owner(self, context: ServerRequestContext[Any, Any], uri: str, params: Any) -> Any:
        """Return the answer of the server that has a resource. Ask one after the other if it isn't known."""
        link = self._link(context)
        owner = self.names.owner_of(uri)
        asked = list(link.upstreams.values()) if owner is None else [link.upstreams[owner]]
        for upstream in asked[:-1]:
            try:
                return await self._relayed(link, upstream, context, params)
            except MCPError as error:
                log.debug("%s is not a resource of %s: %s", uri, upstream.server.name, error)
        return await self._relayed(link, asked[-1], context, params)

    async def _relayed(
        self, link: ClientLink, upstream: Upstream, context: ServerRequestContext[Any, Any], params: Any
    ) -> dict[str, Any]:
        """Return a server's answer to the client's request, or its failure as an error of MCP."""
        try:
            return await self._request(link, upstream, context, context.method, params)
        except ServerSilentError as error:
            raise MCPError(types.REQUEST_TIMEOUT, str(error)) from error
        except ServerDownError as error:
            raise MCPError(types.CONNECTION_CLOSED, str(error)) from error
        except (ServerStatusError, AnswerTooLargeError) as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    async def _request(
        self,
        link: ClientLink,
        upstream: Upstream,
        context: ServerRequestContext[Any, Any],
        method: str,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        self._note_headers(upstream, context)
        wants_progress = ((context.params or _EMPTY).get("_meta") or _EMPTY).get("progressToken") is not None
        link.entered(context)
        try:
            return await upstream.request(
                method, params, on_progress=context.session.report_progress if wants_progress else None
            )
        finally:
            link.left(context)

    def _note_headers(self, upstream: Upstream, context: ServerRequestContext[Any, Any]) -> None:
        if isinstance(upstream.server, UrlServer) and context.request is not None:
            upstream.headers = forwarding.forwarded(context.request.headers.items(), upstream.server.forward_headers)

    def _has_none(self, error: Exception) -> bool:
        """Return whether an error of a list says that the server has none.

        Raises:
            MCPError: Another error of the only server. One of several servers must not hide the others.
        """
        if not isinstance(error, MCPError) or error.code == types.METHOD_NOT_FOUND:
            return isinstance(error, MCPError)
        if len(self.servers) == 1:
            raise error
        return False

    def _owner(self, name: str) -> tuple[str, str]:
        """Return the server of a tool or prompt, and its name there.

        Raises:
            MCPError: No server has this name in front.
        """
        found = self.names.inner(name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"{name} belongs to no server of this proxy.")
        return found

    # -- clients ------------------------------------------------------------------------------------------------------

    async def welcome(
        self, context: ServerRequestContext[Any, Any], params: types.InitializeRequestParams
    ) -> ClientLink:
        """Connect a new client to the servers. The client gets a notification when a server comes later."""
        link = self._new_link(context, params)
        for upstream in link.upstreams.values():
            self._note_headers(upstream, context)
        await connected(list(link.upstreams.values()), HELLO_LIMIT_S)
        link.greeted = True
        return link

    async def close(self) -> None:
        """End all connections to servers, and their processes."""
        await asyncio.gather(*(link.close() for link in self.links))

    def _new_link(self, context: ServerRequestContext[Any, Any], params: types.InitializeRequestParams) -> ClientLink:
        connection = context.session._connection  # noqa: SLF001 - FastMCP's own proxy takes it from there
        link = ClientLink(context.session, connection, params, self.servers, self._limit_s, self._inbound)
        link.principal = _principal(context)
        connection.state[_LINK] = link
        self.links.add(link)

        async def end() -> None:
            self.links.discard(link)
            await link.close()

        connection.exit_stack.push_async_callback(end)
        return link

    def _link(self, context: ServerRequestContext[Any, Any]) -> ClientLink:
        """Return the link of the client that sent a request.

        Raises:
            MCPError: The client uses a protocol without a handshake.
        """
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(
                types.UNSUPPORTED_PROTOCOL_VERSION,
                "This proxy speaks the versions of MCP with a handshake.",
                types.UnsupportedProtocolVersionErrorData(
                    supported=list(HANDSHAKE_PROTOCOL_VERSIONS), requested=context.protocol_version
                ).model_dump(mode="json"),
            )
        found = context.session._connection.state.get(_LINK)  # noqa: SLF001 - see _new_link
        if isinstance(found, ClientLink):
            found.principal = _principal(context)  # a token's rights may have changed
            return found
        unknown = types.Implementation(name="unknown", version="0")
        params = context.session.client_params or types.InitializeRequestParams(
            protocol_version=context.protocol_version, capabilities=types.ClientCapabilities(), client_info=unknown
        )
        return self._new_link(context, params)


class ServerTool(Tool):
    """A tool of a server, which lists itself as the server does."""

    _listed: types.Tool = PrivateAttr()

    @classmethod
    def of(cls, name: str, listed: types.Tool) -> ServerTool:
        """Return the tool with the name that clients know."""
        tool: ServerTool = cls.model_construct(name=name, parameters=listed.input_schema, tags=set())
        tool._listed = listed if listed.name == name else listed.model_copy(update={"name": name})
        return tool

    def to_mcp_tool(self, **_overrides: Any) -> types.Tool:
        """Return the tool as the server lists it."""
        return self._listed


def _principal(context: ServerRequestContext[Any, Any]) -> Principal | None:
    """Return who sent a request over HTTP. None over standard input."""
    return None if context.request is None else principal_of(context.request.scope)


async def _no_such_method(context: ServerRequestContext[Any, Any], _params: Any) -> Any:
    """Answer a client that asks for the protocol without a handshake, so that it makes a handshake."""
    raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
