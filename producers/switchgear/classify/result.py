"""Classify results: a tool of MCP or of an agent framework that fails may return an error instead of raising one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from switchgear.classify.by_code import by_data
from switchgear.classify.classification import IGNORE, Classification
from switchgear.classify.tool_failure import is_refusal, read_tool_failure
from switchgear.classify.waits import in_data
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.globs import matches

MAX_TEXT: Final = 2_000
"""The most characters of a result's text to look at."""
_MOST_MESSAGES: Final = 50
"""The most parts of a Command's update to look at."""
HARMLESS: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})
"""Types of results that can't be a failure."""
_warnings: Final = BoundedLog(logging.getLogger("switchgear.guard"))

TextRule = Callable[[str], "Classification | ErrorClass | None"]
"""What a failed result's text says about the tool. None: nothing."""
CLIENT_ERRORS: Final[Mapping[str, ErrorClass]] = {
    "Connection closed": "transport",
    "MCP error -32000: Connection closed": "transport",
    "MCP error -32001: Request timed out": "timeout",
}
"""What the clients of MCP's SDKs say, word for word, when the server gave no answer. A longer text may quote anything."""


def classify_result(result: Any, *, by_text: TextRule | None = None) -> Classification | None:
    """Return the class of a result that is a failure, None for every other result. Raises only what ``by_text`` raises.

    These are failures:

    * a ``CallToolResult`` of the MCP SDKs or FastMCP, FastMCP's and LlamaIndex's tool results, or a dict with ``content``, whose
      ``is_error`` or ``isError`` is true;
    * LangChain's ``ToolMessage`` with the status ``error``, also as the only answer in LangGraph's ``Command``; CrewAI's
      ``ToolFailure``; Agent Framework's content with an ``exception``.

    The class is ``tool``: the server answered, so "no such city" three times must not open the circuit, nor a dead link that a
    tool was asked to fetch. A refusal of another guard, which its words show, is ``policy``. If the texts of a server tell its own
    outages, give ``by_text``. If the result says in its ``_meta`` what failed, that decides: see
    :mod:`switchgear.classify.tool_failure`. So does a status of 429, 503 or 529 there, or how long to wait.

    A request for input (MCP's ``InputRequiredResult``) is neither a success nor a failure: ``IGNORE``.

    Args:
        result: What the tool returned.
        by_text: Returns the class of a text, or None for ``tool``. :func:`outage_in_text` is such a function. The default knows
            refusals only.
    """
    if type(result) in HARMLESS:
        return None
    says = _says(result)
    if says != "failed":
        return IGNORE if says == "asks" else None
    said = _said_in_meta(result)
    if said is not None:
        return said
    found = (by_text or refusal_in_text)(result_text(result))
    if isinstance(found, Classification):
        return found
    return Classification(found or "tool", _wait_in_content(result) if found in {"rate_limited", "server"} else None)


def _flag(result: Any) -> bool:
    """Return whether ``is_error`` is true, or ``isError`` without it: FastMCP warns of those who read its old name."""
    flag = getattr(result, "is_error", None)
    return (getattr(result, "isError", None) if flag is None else flag) is True


class _Form(NamedTuple):
    """How a type of results says that the tool failed."""

    failed: Callable[[Any], bool]
    content: Callable[[Any], object] = lambda result: getattr(result, "content", None)
    """Returns the failure's text, or its parts."""


def _error_message(command: Any) -> Any:
    """Return the error message in the update of a Command, None without one.

    None too if an answer without an error is beside it: then the Command tells of several calls, as that of a graph within.
    """
    messages, found = _messages(command.update), None
    for each in islice(messages if isinstance(messages, (list, tuple)) else (messages,), _MOST_MESSAGES):
        kind: Any = type(each)  # for mypy, which takes a type for unhashable
        if _form_of(kind) is _ANSWER:
            if not _ANSWER.failed(each):
                return None
            found = each
    return found


def _messages(update: Any) -> Any:
    """Return the ``messages`` of an update, which is a mapping, a list of pairs, an object, or the messages themselves."""
    if isinstance(update, Mapping):
        return update.get("messages")
    if not isinstance(update, (list, tuple)):
        return getattr(update, "messages", update)
    pairs = (each for each in islice(update, _MOST_MESSAGES) if isinstance(each, tuple) and len(each) == 2)
    return next((value for name, value in pairs if name == "messages"), update)


_FLAGGED: Final = _Form(_flag)
_ANSWER: Final = _Form(lambda message: message.status == "error")
"""LangChain's message with what a tool answered."""
_FORMS: Final[dict[tuple[str, str], _Form]] = {
    ("agent_framework", "Content"): _Form(
        lambda content: content.type == "function_result" and content.exception is not None,
        lambda content: content.exception,
    ),
    ("crewai", "ToolFailure"): _Form(lambda _: True, lambda failure: failure.message),
    ("fastmcp", "ToolResult"): _FLAGGED,
    ("langchain_core", "ToolMessage"): _ANSWER,
    ("langgraph", "Command"): _Form(
        lambda command: _error_message(command) is not None, lambda command: _error_message(command).content
    ),
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
    return _says(result) == "failed"


def _says(result: Any) -> Literal["failed", "asks"] | None:
    """Return whether a result is a failure or a request for input, None for other results."""
    try:
        kind: Any = type(result)  # Any for mypy, which takes a type for unhashable
        if kind is dict or isinstance(result, Mapping):  # the first is much faster
            if "content" in result:
                return "failed" if result.get("isError") is True or result.get("is_error") is True else None
            asks = result.get("resultType") == "input_required" or result.get("result_type") == "input_required"
            return "asks" if asks else None
        form = _form_of(kind)
        if form is not None and form.failed(result):
            return "failed"
        return "asks" if _asks(kind) else None
    except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
        _warnings.warning(f"a result of type {type(result).__name__} could not be read", error)
    return None


def _said_in_meta(result: Any) -> Classification | None:
    """Return the class that a failed result names in its ``_meta``, None without one."""
    try:
        mapped = isinstance(result, Mapping)
        meta = (result.get("_meta") or result.get("meta")) if mapped else getattr(result, "meta", None)
        return read_tool_failure(meta) or by_data(meta)
    except Exception:  # noqa: BLE001 - see above; the result is a failure all the same
        return None


def _wait_in_content(result: Any) -> float | None:
    """Return the seconds that the structured content of a failed result asks to wait. It never says the class: it may be about a target."""
    try:
        if isinstance(result, Mapping):
            return in_data(result.get("structuredContent") or result.get("structured_content"))
        found = getattr(result, "structured_content", None)
        return in_data(getattr(result, "structuredContent", None) if found is None else found)
    except Exception:  # noqa: BLE001 - see above
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
    return (_form_of(kind) or _FLAGGED).content(result)


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


def refusal_in_text(text: str) -> ErrorClass | None:
    """Return ``policy`` for a text with a refusal of another guard, None for every other text. The rule of tools without another."""
    return "policy" if is_refusal(text[:MAX_TEXT]) else None


def client_error(text: str) -> ErrorClass | None:
    """Return the class of a failure that a client of MCP reports in place of an answer, None for every other text.

    Use it where a framework shows the errors of its client and the answers of servers in the same way.
    """
    return CLIENT_ERRORS.get(text.strip())


def text_rule(tool: str, outages_in_text: Collection[str]) -> Callable[[str], ErrorClass | None]:
    """Return the rule for the texts of a tool's failed results: the user names the tools whose texts report outages.

    Args:
        tool: The circuit's name.
        outages_in_text: Globs of the names of the tools whose texts count.
    """
    return outage_in_text if any(matches(glob, tool) for glob in outages_in_text) else refusal_in_text


def outage_of_target(error_class: ErrorClass | None, text: str) -> ErrorClass | None:
    """Return the class of an outage that a failed answer reports of the target that the call named, None for every other failure.

    The answer is about that target, so its text may count there without an option. A missing page stays class ``tool``.
    """
    return outage_in_text(text) if error_class == "tool" else None


def outage_in_text(text: str) -> ErrorClass | None:
    """Return the class of an outage that a text reports in the words of operating systems, HTTP and common clients, or None.

    A refusal of another guard, which may quote an outage, is ``policy``.

    Use it as ``by_text`` of :func:`classify_result`. Don't use it for tools that return other people's text, such as tools
    that run code or read pages.
    """
    seen = text[:MAX_TEXT]
    outages = (found for pattern, found in _OUTAGES if re.search(pattern, seen, re.IGNORECASE))
    return refusal_in_text(seen) or next(outages, None)
