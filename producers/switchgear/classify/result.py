"""Results that are failures: an MCP tool that fails says so in what it returns, not by raising."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from switchgear.classify.classification import Classification, attribute
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

MAX_TEXT: Final = 2_000
"""Characters of a result's text that are looked at."""
_PLAIN: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})

TextRule = Callable[[str], "Classification | ErrorClass | None"]


def classify_result(result: Any, *, by_text: TextRule | None = None) -> Classification | None:
    """None for a result that is no failure, which is every one but MCP's.

    Recognised are a ``CallToolResult`` of the MCP SDKs and FastMCP, and a dict with ``content``, where ``isError`` (or
    ``is_error``) is true. Its class is ``tool``: the server answered, so it is not broken, and "no such city" three times
    must not take it from everybody. But most servers report their own broken database in the same way. Where a server's
    texts can be trusted to tell the one from the other, say so with ``by_text``.

    Args:
        result: What the tool returned.
        by_text: From the result's text to a class or a Classification, None for ``tool``. :func:`outage_in_text` is one.
    """
    kind = type(result)
    if kind in _PLAIN:
        return None
    if isinstance(result, Mapping):
        failed = "content" in result and (result.get("isError") is True or result.get("is_error") is True)
    elif any(base.__name__ == "CallToolResult" for base in kind.__mro__):
        failed = attribute(result, "isError") is True or attribute(result, "is_error") is True
    else:
        return None
    if not failed:
        return None
    found = None if by_text is None else by_text(result_text(result))
    return found if isinstance(found, Classification) else Classification(found or "tool")


def result_text(result: Any) -> str:
    """The text blocks of an MCP result, at most ``MAX_TEXT`` characters."""
    content = result.get("content") if isinstance(result, Mapping) else attribute(result, "content")
    if isinstance(content, str):
        return content[:MAX_TEXT]
    blocks = list(content)[:20] if isinstance(content, (list, tuple)) else []
    texts = (block.get("text") if isinstance(block, Mapping) else attribute(block, "text") for block in blocks)
    return "\n".join(text[:MAX_TEXT] for text in texts if isinstance(text, str))[:MAX_TEXT]


def _status(codes: str) -> str:
    """How requests, urllib, aiohttp, httpx, axios and the SDKs of model providers word a status."""
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
    """A rule for :func:`classify_result`: the wording of operating systems, HTTP and common clients for an outage.

    Not for tools whose text is somebody else's, such as one that runs code or reads pages: their text may say anything.
    """
    seen = text[:MAX_TEXT]
    return next((found for pattern, found in _OUTAGES if re.search(pattern, seen, re.IGNORECASE)), None)


HARMLESS: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})
"""Types of results that can't tell of a failure, as MCP's can."""
_complaints: Final = BoundedLog(logging.getLogger("switchgear.guard"))


def failure_in(result: Any) -> Classification | None:
    """What kind of failure ``result`` tells of; None where it tells of none, or its own attributes fail. Never raises."""
    try:
        return classify_result(result)
    except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
        _complaints.warning(f"a result of type {type(result).__name__} could not be read", error)
        return None


def text_in(result: Any) -> str:
    """What a result that tells of a failure says. Never raises."""
    try:
        return result_text(result) or "the result says that the tool failed"
    except Exception as error:  # noqa: BLE001 - as above
        return f"(its text can't be read: {type(error).__name__})"
