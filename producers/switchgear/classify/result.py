"""Classify results: an MCP tool that fails returns an error instead of raising one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from switchgear.classify.classification import Classification
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

MAX_TEXT: Final = 2_000
"""The most characters of a result's text to look at."""
HARMLESS: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})
"""Types of results that can't be a failure."""
_warnings: Final = BoundedLog(logging.getLogger("switchgear.guard"))

TextRule = Callable[[str], "Classification | ErrorClass | None"]


def classify_result(result: Any, *, by_text: TextRule | None = None) -> Classification | None:
    """Return the class of an MCP result that is a failure, None for every other result. Raises only what ``by_text`` raises.

    A failure is a ``CallToolResult`` of the MCP SDKs or FastMCP, or a dict with ``content``, whose ``isError`` (or
    ``is_error``) is true. Its class is ``tool``: the server answered, so "no such city" three times must not open the
    circuit. But most servers report a broken database in the same way. If a server's texts distinguish the two, give
    ``by_text``.

    Args:
        result: What the tool returned.
        by_text: Returns the class of a text, or None for ``tool``. :func:`outage_in_text` is such a function.
    """
    if type(result) in HARMLESS or not _says_failed(result):
        return None
    found = None if by_text is None else by_text(result_text(result))
    return found if isinstance(found, Classification) else Classification(found or "tool")


def _says_failed(result: Any) -> bool:
    try:
        if isinstance(result, Mapping):
            return "content" in result and (result.get("isError") is True or result.get("is_error") is True)
        if any(base.__name__ == "CallToolResult" for base in type(result).__mro__):
            return getattr(result, "isError", None) is True or getattr(result, "is_error", None) is True
    except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
        _warnings.warning(f"a result of type {type(result).__name__} could not be read", error)
    return False


def result_text(result: Any) -> str:
    """Return the text of an MCP result, at most ``MAX_TEXT`` characters. Never raises."""
    try:
        content = result.get("content") if isinstance(result, Mapping) else getattr(result, "content", None)
        if isinstance(content, str):
            return content[:MAX_TEXT]
        blocks = list(content)[:20] if isinstance(content, (list, tuple)) else []
        texts = (block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None) for block in blocks)
        return "\n".join(text[:MAX_TEXT] for text in texts if isinstance(text, str))[:MAX_TEXT]
    except Exception as error:  # noqa: BLE001 - see above
        return f"(its text can't be read: {type(error).__name__})"


def _status(codes: str) -> str:
    """Return the patterns that requests, urllib, aiohttp, httpx, axios and model SDKs use for a status."""
    return (
        rf"\b{codes} (?:client|server) error\b|\bhttp error {codes}\b|\b{codes}, message=|\b(?:client|server) error '{codes}\b"
        rf"|\bstatus code:? {codes}\b|\berror code: {codes} - "
    )


_UNREACHABLE: Final = (
    # operating systems, Windows and macOS too
    r"\bconnection (?:refused|reset|aborted)\b|\bno route to host\b|\bnetwork is unreachable\b|\bWinError 100(?:5[134]|6[145])\b"
    r"|\bname or service not known\b|\btemporary failure in name resolution\b|\bnodename nor servname\b|\bgetaddrinfo failed\b"
    r"|\bcould not resolve host\b|\bno such host\b"
    # Node
    r"|\bE(?:CONNREFUSED|CONNRESET|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)\b|\bsocket hang up\b|\bfetch failed\b(?!:)"
    # httpx, requests and urllib3, http.client, aiohttp, curl
    r"|\ball connection attempts failed\b|\bpeer closed connection\b|\bserver disconnected\b|\bmax retries exceeded with url\b"
    r"|\bremote end closed connection\b|\bIncompleteRead\(|\bcannot connect to host\b|\bconnect call failed\b"
    r"|\bresponse payload is not completed\b|\bempty reply from server\b"
)
_LIMITED: Final = rf"\brate limit(?:ed| exceeded| reached)\b|\btoo many requests\b|{_status('429')}"
_SLOW: Final = (
    rf"\b504 gateway time-?out\b|\bE(?:SOCKET)?TIMEDOUT\b|\bdeadline exceeded\b|\btimed out\b|\bi/o timeout\b|\bWinError 10060\b"
    rf"|\btimeout of [0-9]+ ?ms exceeded\b|{_status('(?:408|504)')}"
)
_BROKEN: Final = rf"\b500 internal server error\b|\b502 bad gateway\b|\b503 service (?:temporarily )?unavailable\b|{_status('5[0-9]{2}')}"
_OUTAGES: Final[tuple[tuple[str, ErrorClass], ...]] = (
    (_LIMITED, "rate_limited"),
    (_SLOW, "timeout"),
    (_BROKEN, "server"),
    (_UNREACHABLE, "transport"),
)


def outage_in_text(text: str) -> ErrorClass | None:
    """Return the class of an outage that a text reports in the words of operating systems, HTTP and common clients, or None.

    Use it as ``by_text`` of :func:`classify_result`. Don't use it for tools that return other people's text, such as tools
    that run code or read pages.
    """
    seen = text[:MAX_TEXT]
    return next((found for pattern, found in _OUTAGES if re.search(pattern, seen, re.IGNORECASE)), None)
