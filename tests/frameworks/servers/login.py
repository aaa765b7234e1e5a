"""A small MCP server that wants a login over OAuth, with its own authorization server. Its argument is the port."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.settings import ClientRegistrationOptions

PORT = int(sys.argv[1])
provider = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{PORT}", client_registration_options=ClientRegistrationOptions(enabled=True)
)
server = FastMCP("login", auth=provider)


@server.tool
def who() -> str:
    """Return the client that has logged in."""
    token = get_access_token()
    return "nobody" if token is None else token.client_id


@server.tool
def revoke() -> str:
    """Forget all tokens, as if they had expired."""
    provider.access_tokens.clear()
    return "done"


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=PORT)
