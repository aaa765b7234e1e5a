"""What the versions of MCP call things, as far as the proxy looks at them."""

from __future__ import annotations

from typing import Final

HANDSHAKES: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""The versions with a handshake."""
LATEST_HANDSHAKE: Final = max(HANDSHAKES)
NO_HANDSHAKE: Final = "2026-07-28"
"""The version without one."""
PREFIX: Final = "io.modelcontextprotocol/"
"""How the protocol's own keys of ``_meta`` begin."""
VERSION_KEY: Final = f"{PREFIX}protocolVersion"
"""In ``_meta`` of each request of the protocol without a handshake."""
SUBSCRIPTION_KEY: Final = f"{PREFIX}subscriptionId"
"""In ``_meta`` of what a server tells a subscription of that protocol."""
DISCOVER_S: Final = 2.0
"""The longest wait of a translation for ``server/discover``. A server that doesn't know it may be silent."""
SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
EVENT_STREAM: Final = "text/event-stream"


def handshake_version(asked: object) -> str:
    """Return the version for a handshake: the one that the client asks for, or the latest that has one."""
    return asked if isinstance(asked, str) and asked <= LATEST_HANDSHAKE else LATEST_HANDSHAKE
