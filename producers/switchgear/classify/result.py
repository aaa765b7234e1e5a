"""Classify results: a tool of MCP or of an agent framework that fails may return an error instead of raising one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from switchgear.classify.classification import IGNORE, Classification
from switchgear.classify.tool_failure import is_refusal, read_tool_failure
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

MAX_TEXT: Final = 2_000
"""The most characters of a result's text to look at."""
HARMLESS: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})
"""Types of results that can't be a failure."""
_warnings: Final = BoundedLog(logging.getLogger("switchgear.guard"))

TextRule = Callable[[str], "Classification | ErrorClass | None"]


def classify_result(result: Any, *, by_text: TextRule | None = None) -> Classification | None:
    """Return the class of a result that is a failure, None for every other result. Raises only what ``by_text`` raises.

    These are failures:

    * a ``CallToolResult`` of the MCP SDKs or FastMCP, FastMCP's and LlamaIndex's tool results, or a dict with ``content``, whose
      ``is_error`` or ``isError`` is true;
    * LangChain's ``ToolMessage`` with the status ``error``, CrewAI's ``ToolFailure``, Agent Framework's content with an
      ``exception``.

    The class is ``tool``: the server answered, so "no such city" three times must not open the circuit. But most servers report
    a broken database in the same way. If a server's texts distinguish the two, give ``by_text``. If the result says in its
    ``_meta`` what failed, that decides: see :mod:`switchgear.classify.tool_failure`.

    A request for input (MCP's ``InputRequiredResult``) is neither a success nor a failure: ``IGNORE``.

    Args:
        result: What the tool returned.
        by_text: Returns the class of a text, or None for ``tool``. :func:`outage_in_text` is such a function.
    """
    if type(result) in HARMLESS:
        return None
    if not says_failed(result):
        return IGNORE if _asks_for_input(result) else None
    said = _said_in_meta(result)
    if said is not None:
        return said
    found = None if by_text is None else by_text(result_text(result))
    return found if isinstance(found, Classification) else Classification(found or "tool")


def _flag(result: Any) -> bool:
    """Return whether ``is_error`` is true, or ``isError`` without it: FastMCP warns of those who read its old name."""
    flag = getattr(result, "is_error", None)
    return (getattr(result, "isError", None) if flag is None else flag) is True


class _Form(NamedTuple):
    """How a type of results says that the tool failed."""

    failed: Callable[[Any], bool]
    text: str = "content"
    """The attribute with the failure's text."""


_FLAGGED: Final = _Form(_flag)
_FORMS: Final[dict[tuple[str, str], _Form]] = {
    ("agent_framework", "Content"): _Form(
        lambda content: content.type == "function_result" and content.exception is not None, "exception"
    ),
    ("crewai", "ToolFailure"): _Form(lambda _: True, "message"),
    ("fastmcp", "ToolResult"): _FLAGGED,
    ("langchain_core", "ToolMessage"): _Form(lambda message: message.status == "error"),
    ("llama_index", "ToolOutput"): _FLAGGED,
}
"""By library and name of the type."""
_ASKS: Final = frozenset({"InputRequiredResult", "InputRequiredToolResult"})
"""Types of MCP and FastMCP for a server's request for input."""


def _names(kind: type) -> list[tuple[str, str]]:
    return [(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__]


@lru_cache(maxsize=256)  # a tool returns few types
def _form_of(kind: type) -> _Form | None:
    """Return how results of a type say that the tool failed, None if they don't."""
    names = _names(kind)
    if any(name == "CallToolResult" for _, name in names):
        return _FLAGGED
    return next((_FORMS[name] for name in names if name in _FORMS), None)


@lru_cache(maxsize=256)
def _asks(kind: type) -> bool:
    return any(name in _ASKS for _, name in _names(kind))


def says_failed(result: Any) -> bool:
    """Return whether a result says that the tool failed. Never raises."""
    try:
        if isinstance(result, Mapping):
            return "content" in result and (result.get("isError") is True or result.get("is_error") is True)
        kind: Any = type(result)  # for mypy, which takes a type for unhashable
        form = _form_of(kind)
        return form is not None and form.failed(result)
    except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
        _warnings.warning(f"a result of type {type(result).__name__} could not be read", error)
    return False


def _asks_for_input(result: Any) -> bool:
    try:
        if isinstance(result, Mapping):
            return "input_required" in {result.get("resultType"), result.get("result_type")}
        kind: Any = type(result)
        return _asks(kind)
    except Exception:  # noqa: BLE001 - see above; such a result asks for nothing
        return False


def _said_in_meta(result: Any) -> Classification | None:
    """Return the class that a failed result names in its ``_meta``, None without one."""
    try:
        if isinstance(result, Mapping):
            return read_tool_failure(result.get("_meta") or result.get("meta"))
        return read_tool_failure(getattr(result, "meta", None))
    except Exception:  # noqa: BLE001 - see above; the result is a failure all the same
        return None


def result_text(result: Any) -> str:
    """Return the text of a failed result, at most ``MAX_TEXT`` characters. Never raises."""
    try:
        content = result.get("content") if isinstance(result, Mapping) else _content(result)
        if isinstance(content, str):
            return content[:MAX_TEXT]
        blocks = list(content)[:20] if isinstance(content, (list, tuple)) else []
        texts = (block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None) for block in blocks)
        return "\n".join(text[:MAX_TEXT] for text in texts if isinstance(text, str))[:MAX_TEXT]
    except Exception as error:  # noqa: BLE001 - see above
        return f"(its text can't be read: {type(error).__name__})"


def _content(result: Any) -> object:
    kind: Any = type(result)
    form = _form_of(kind)
    return getattr(result, "content" if form is None else form.text, None)


def _status(codes: str) -> str:
    """Return the patterns that requests, urllib, aiohttp, httpx, axios and model SDKs use for a status."""
    return (
        rf"\b{codes} (?:client|server) error\b|\bhttp error {codes}\b|\b{codes}, message=|\b(?:client|server) error '{codes}\b"
        rf"|\bstatus code:? {codes}\b|\berror code: {codes} - |\b{codes} from (?:the )?upstream\b"
    )


def _raised(names: str) -> str:
    """Return the pattern of Python's exceptions where a text names one as raised: before a colon, as ``repr``, or at its end."""
    return rf"(?-i:(?<![\w.])(?:\w+\.)*(?:{names})(?=:|\(|[.\s]*\Z))"


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
    # MCP's SDKs, whose number alone says only that the server failed
    r"|\bMCP error -32000: Connection closed\b|"
    + _raised(
        "Connection(?:Refused|Reset|Aborted)?Error|BrokenPipeError|ConnectError|ReadError|WriteError|RemoteProtocolError"
        "|ServerDisconnectedError|ClientConnector(?:DNS)?Error|NewConnectionError|APIConnectionError"
    )
)
_LIMITED: Final = rf"\brate limit(?:ed| exceeded| reached)\b|\btoo many requests\b|{_status('429')}"
_SLOW: Final = (
    rf"\b504 gateway time-?out\b|\bE(?:SOCKET)?TIMEDOUT\b|\bdeadline exceeded\b|\btimed out\b|\bi/o timeout\b|\bWinError 10060\b"
    rf"|\btimeout of [0-9]+ ?ms exceeded\b|{_status('(?:408|504)')}|"
    + _raised(
        "TimeoutError|(?:Connect|Read|Write|Pool)Timeout(?:Error)?|TimeoutException|APITimeoutError|ServerTimeoutError"
    )
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

    A refusal of another guard, which may quote an outage, is ``policy``.

    Use it as ``by_text`` of :func:`classify_result`. Don't use it for tools that return other people's text, such as tools
    that run code or read pages.
    """
    seen = text[:MAX_TEXT]
    if is_refusal(seen):
        return "policy"
    return next((found for pattern, found in _OUTAGES if re.search(pattern, seen, re.IGNORECASE)), None)
