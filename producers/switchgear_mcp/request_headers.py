"""The headers of HTTP that repeat what a message says, in the protocol without a handshake."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from switchgear_mcp import message as rpc
from switchgear_mcp.message import Message, Raw
from switchgear_mcp.protocol import SESSION_HEADER, VERSION_HEADER, VERSION_KEY

_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_PARAMETER: Final = "mcp-param-"
_ANNOTATION: Final = "x-mcp-header"
_MOST_DEEP: Final = 20
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
    if VERSION_HEADER in headers:
        return {name: value for name, value in headers.items() if name.startswith("mcp-") and name != SESSION_HEADER}
    found = {VERSION_HEADER: version, "mcp-method": message.method}
    found |= {name: value for name, value in headers.items() if name.startswith(_PARAMETER)}
    named = rpc.plain(message.params.get(_NAMES.get(message.method, "")))
    if isinstance(named, str):
        found["mcp-name"] = encoded(named)
    return found


def encoded(value: str) -> str:
    """Return a text as the value of a header."""
    if _SAFE.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def mismatch(message: Message, headers: Mapping[str, str]) -> str | None:
    """Return in which header a request says something else than in its body, as a sentence, or None.

    Args:
        message: The request.
        headers: Its headers, with names in lower case.
    """
    version = rpc.plain(message.meta.get(VERSION_KEY))
    key = _NAMES.get(message.method or "", "")
    named = rpc.plain(message.params.get(key))
    given = {VERSION_HEADER: version, "mcp-method": message.method}
    given |= {"mcp-name": named} if isinstance(named, str) else {}
    wrong = next((name for name, value in given.items() if _decoded(headers.get(name)) != value), None)
    return None if wrong is None else f"The header {wrong} does not match the body of the request."


def _decoded(value: str | None) -> str | None:
    if value is None or not _ENCODED.fullmatch(value):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except ValueError:
        return None


def annotated(tool: Raw) -> dict[tuple[str, ...], str]:
    """Return the arguments of a tool that a header repeats: the name of the header by the argument's path.

    Args:
        tool: The entry of the list of tools.
    """
    if _ANNOTATION.encode() not in bytes(tool):
        return {}
    return dict(_annotated(rpc.plain(rpc.members(tool).get("inputSchema")), ()))


def _annotated(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(schema, dict) or len(path) > _MOST_DEEP:
        return
    name = schema.get(_ANNOTATION)
    if path and isinstance(name, str):
        yield path, _PARAMETER + name.lower()
    properties = schema.get("properties")
    for key, each in properties.items() if isinstance(properties, dict) else ():
        yield from _annotated(each, (*path, key))


def of_arguments(wanted: Mapping[tuple[str, ...], str], arguments: Any) -> dict[str, str]:
    """Return the headers that repeat arguments. An argument that isn't there has none."""
    found: dict[str, str] = {}
    for path, header in wanted.items():
        value = arguments
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool):
            found[header] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[header] = encoded(str(value))
    return found
