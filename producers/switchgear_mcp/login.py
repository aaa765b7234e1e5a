"""The login of a client at a server behind the proxy, over OAuth: it passes, and the proxy keeps no token.

A server refuses a request with 401 and says where its metadata is (RFC 9728). A client believes metadata only if they name the address
that it uses, so they are served by the proxy, with the proxy's address in them. All else is between the client and the
authorization server. Then the client's ``Authorization`` goes on to the server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from switchgear_mcp import message as rpc
from switchgear_mcp.servers import Server, UrlServer

log: Final = logging.getLogger("switchgear.mcp_proxy")
WELL_KNOWN: Final = "/.well-known/"
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_PASSED: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
"""Metadata of an authorization server at the server's own address, which older clients look for."""
_METADATA: Final = re.compile(r'(?i)(\bresource_metadata\s*=\s*)("[^"]*"|[^\s,"]+)')
_HEADER: Final = "authorization"
_MOST_BYTES: Final = 1_048_576
_LIMIT_S: Final = 20.0


def server_of(servers: Sequence[Server]) -> UrlServer | None:
    """Return the server at which clients of the proxy log in themselves, None if there is none.

    It is the only one, at an address, and without an ``Authorization`` of its own. With several, one would get the token of another.
    """
    server = servers[0] if len(servers) == 1 else None
    if not isinstance(server, UrlServer) or any(name.lower() == _HEADER for name in server.headers):
        return None
    return replace(server, forward_headers=tuple(dict.fromkeys((*server.forward_headers, _HEADER))))


class Login:
    """Serves a server's metadata as the proxy's.

    Args:
        server: The server.
        path: Where the proxy serves MCP.
        transport: For tests.
    """

    def __init__(self, server: UrlServer, path: str, transport: Any = None) -> None:
        self._server, self._path, self._transport = server, path, transport
        parts = urlsplit(server.url)
        self._origin, self._inner = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.rstrip("/")
        self._metadata = ""
        """Where the server's metadata is, as it said last."""

    def challenge(self, given: str, origin: str) -> str:
        """Return a server's ``WWW-Authenticate`` for clients of the proxy.

        Args:
            given: What the server said.
            origin: The scheme and the host by which the client reaches the proxy.
        """
        found = _METADATA.search(given)
        if found is None or not found[2].strip('"').startswith(f"{self._origin}/"):
            return given
        self._metadata = found[2].strip('"')
        return _METADATA.sub(rf'\g<1>"{origin}{_RESOURCE}{self._path}"', given, count=1)

    async def answer(self, path: str, origin: str) -> bytes | None:
        """Return metadata, None if the server has none.

        Args:
            path: What the client asks for.
            origin: The scheme and the host by which it reaches the proxy.
        """
        if path in {_RESOURCE, _RESOURCE + self._path}:
            places = [self._metadata, f"{self._origin}{_RESOURCE}{self._inner}", f"{self._origin}{_RESOURCE}"]
            for place in dict.fromkeys(filter(None, places)):
                body = await self._fetched(place)
                if body is not None:
                    return bytes(rpc.with_members(rpc.Raw(body), resource=origin + self._path))
        elif path.startswith(_PASSED):
            return await self._fetched(self._origin + path.removesuffix(self._path))
        return None

    async def _fetched(self, url: str) -> bytes | None:
        """Return an object of the server, None if it has none there. Redirects are not followed."""
        import httpx2  # noqa: PLC0415 - only for this

        headers = {"accept": "application/json", "accept-encoding": "identity"}
        pieces, size = list[bytes](), 0
        try:
            async with (
                httpx2.AsyncClient(timeout=_LIMIT_S, headers=headers, transport=self._transport) as client,
                client.stream("GET", url) as response,
            ):
                if response.status_code != 200:
                    return None
                async for piece in response.aiter_raw():
                    pieces.append(piece)
                    size += len(piece)
                    if size > _MOST_BYTES:
                        return None
        except httpx2.HTTPError as error:
            log.warning("The server %s gave no metadata for a login: %s", self._server.name, error)
            return None
        body = b"".join(pieces)
        return body if rpc.members(rpc.Raw(body)) else None
