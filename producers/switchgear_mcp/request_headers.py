"""The headers of HTTP that repeat what a message says, in the protocol without a handshake."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final

from switchgear_mcp import message as rpc
from switchgear_mcp.calls import VERSION_KEY
from switchgear_mcp.message import Message

_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")


def of_message(message: Message, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a message. A message of a protocol with a handshake has none.

    Args:
        message: The message.
        headers: Headers of the client's request, over HTTP. What they repeat passes as it is, so that the server can check it.
    """
    version = rpc.plain(message.meta.get(VERSION_KEY))
    if not isinstance(version, str) or message.method is None:
        return {}
    if "mcp-protocol-version" in headers:
        return {name: value for name, value in headers.items() if name.startswith("mcp-") and name != "mcp-session-id"}
    found = {"mcp-protocol-version": version, "mcp-method": message.method}
    named = rpc.plain(message.params.get(_NAMES.get(message.method, "")))
    if isinstance(named, str):
        found["mcp-name"] = encoded(named)
    return found


def encoded(value: str) -> str:
    """Return a text as the value of a header."""
    if _SAFE.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
