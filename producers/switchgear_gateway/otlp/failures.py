"""The class of a failure that a span or log record describes. The rules are those of :mod:`switchgear.classify`."""

from __future__ import annotations

import builtins
import re
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from switchgear.classify import classify
from switchgear.classify.by_code import class_of_digits
from switchgear.classify.by_text import quoted_error
from switchgear.classify.result import MAX_TEXT, outage_in_text, refusal_in_text
from switchgear.redaction import redact
from switchgear_gateway.otlp.records import Span, text
from switchgear_schemas import ToolExecution
from switchgear_schemas.enums import ErrorClass, Evidence, status_of

_GENERIC: Final[frozenset[ErrorClass]] = frozenset({"unknown", "tool", "invalid_input"})
"""Classes of types that say little: frameworks raise them whatever failed. The message of a tool that you trust may say more."""
_WORDS: Final[dict[str, ErrorClass]] = {
    "tool_error": "tool",  # MCP: the result's isError is true
    "timeout": "timeout",
    "cancelled": "cancelled",
    "AbortError": "cancelled",  # JavaScript's AbortController
    "TOOL_ERROR": "tool",  # google-adk's words for an error that the tool returned
    "MCP_TOOL_ERROR": "tool",
    "HTTP_ERROR": "tool",
    "SKILL_SCRIPT_EXECUTION_ERROR": "tool",
}
"""Values of ``error.type`` that no library raises."""
_FETCH_FAILED: Final = ("TypeError", "fetch failed")
"""The exception of Node's ``fetch`` for a connection that failed. A TypeError with another message is a mistake in the call."""
_NAMELESS: Final = frozenset({"", "_OTHER", "Exception", "BaseException", "Error"})
"""What a source writes if it knows no type, or if it makes every error one of the same type, as LangSmith does."""
_NEEDS_STATUS: Final = frozenset(
    {
        "AI_APICallError",
        "APIError",
        "APIStatusError",
        "AioRpcError",
        "ClientError",
        "ClientResponseError",
        "HTTPError",
        "HTTPStatusError",
        "MCPError",
        "McpError",
        "RpcError",
    }
)
"""Types whose class is in a status or a code that no source writes beside them."""
_QUOTES: Final = frozenset({"langsmith"})
"""Scopes that write each exception as ``repr`` into the message of another one. What others quote may be the words of a tool."""
_RPC_CODE: Final = re.compile(r"-32[0-9]{3}")
_TYPE: Final = re.compile(r"[A-Za-z_][\w.$]{0,199}")
_MAX_TYPE: Final = 200


class Failure(NamedTuple):
    """How a call failed."""

    error_class: ErrorClass
    error_type: str | None
    message: str | None
    """Redacted and truncated."""
    evidence: Evidence = "full"
    """What the source could tell: ``status_only`` if it hides the kind of error."""


def failure(
    error_type: str | None, message: str | None, *, otherwise: ErrorClass = "unknown", scope: str = ""
) -> Failure:
    """Return the class of a failure by its type and message.

    Args:
        error_type: A value of ``error.type`` or ``exception.type``: an exception's name, an HTTP status, a JSON-RPC code, or a word.
            Without one, or with one that says nothing, the type that the message begins with decides: ``ValueError('no such city')``.
        message: The message of the exception or of the status. A stack trace after it is removed.
        otherwise: The class if neither says anything. Another one than ``unknown`` is what the source shows in another way.
        scope: The instrumentation library that wrote them.
    """
    said = (message or "").partition("Traceback (most recent call last)")[0].strip()[:MAX_TEXT]
    named = (error_type or "").strip()[:_MAX_TYPE]
    hidden = named in _NAMELESS and scope not in _QUOTES  # a type that only the message names may be a tool's words
    while named in _NAMELESS and (inner := quoted_error(said)) is not None:
        named, said = inner
    by_type: ErrorClass | None = "transport" if (named, said) == _FETCH_FAILED else _by_type(named)
    found = by_type or otherwise
    if by_type is None:
        hidden = otherwise == "unknown" and (hidden or named in _NAMELESS or named.rpartition(".")[2] in _NEEDS_STATUS)
    if found in _GENERIC:
        found = refusal_in_text(said) or found
    return Failure(found, named or None, redact(said) if said else None, "status_only" if hidden else "full")


def by_trusted_text(call: ToolExecution) -> ToolExecution:
    """Return a call of a tool whose texts the user trusts: a failure has the class of the outage that its message reports."""
    if call.error_class not in _GENERIC:
        return call
    # "ConnectError: all connection attempts failed", as Python writes an exception: some patterns are about its name.
    named, said = (call.error_type or "").rpartition(".")[2], call.error_message or ""
    found = outage_in_text(f"{named}: {said}" if named else said)
    if found is None:
        return call
    return call.model_copy(update={"error_class": found, "status": status_of(found), "evidence": "full"})


def failure_of(span: Span, *, otherwise: ErrorClass = "unknown") -> Failure | None:
    """Return the failure that a span's status, ``error.type`` and exception describe, None if it did not fail."""
    named = text(span.attributes, "error.type")
    if not span.failed and named is None:
        return None
    caught = span.exception
    if named in {None, "_OTHER"} and caught is not None:
        named = caught.type
    said = (caught.message if caught else "") or span.status_message
    return failure(named, said, otherwise=otherwise, scope=span.scope)


@lru_cache(maxsize=1024)
def _by_type(named: str) -> ErrorClass | None:
    """Return the class of a type's name, None if it is unknown.

    The rules take exceptions, so this makes one with the same module, name and code.
    """
    if named in _WORDS:
        return _WORDS[named]
    if _RPC_CODE.fullmatch(named):
        return classify(_exception("mcp", "MCPError", error=SimpleNamespace(code=int(named)))).error_class
    if not _TYPE.fullmatch(named):
        return class_of_digits(named)
    return _by_status_name(named) or _by_name(named)


def _by_status_name(named: str) -> ErrorClass | None:
    """Return the class of the name of an HTTP status, as google-adk writes it, or of a status of gRPC."""
    if not named.isupper():
        return None
    of_http = _only_known(_exception("google", "Error", error_type=named))
    return of_http or _only_known(_exception("grpc", "RpcError", code=lambda: SimpleNamespace(name=named)))


def _by_name(named: str) -> ErrorClass | None:
    """Return the class of an exception's name, with or without its module."""
    module, _, name = named.rpartition(".")
    base = getattr(builtins, name, None) if module in {"", "builtins"} else None
    if isinstance(base, type) and issubclass(base, BaseExceptionGroup):
        return None  # its members would say more
    if isinstance(base, type) and issubclass(base, BaseException):
        return _only_known(_exception("builtins", name, base=base))
    known = _only_known(_exception(module or "builtins", name))
    return known or outage_in_text(name)  # such as ConnectError, which is known by its bases, and ECONNREFUSED


def _exception(module: str, name: str, *, base: type[BaseException] = Exception, **carries: Any) -> BaseException:
    """Return an exception whose type has this module and name, with what it carries."""
    kind: Any = type(name, (base,), {"__module__": module})
    made: BaseException = kind.__new__(kind)  # without __init__, which may need arguments, as UnicodeDecodeError's does
    vars(made).update(carries)
    return made


def _only_known(error: BaseException) -> ErrorClass | None:
    found = classify(error).error_class
    return None if found == "unknown" else found
