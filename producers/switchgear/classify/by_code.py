"""Classify exceptions by the HTTP status or error code that they carry.

The status is that of httpx, requests, aiohttp, urllib, OpenAI, Anthropic, Google and more. The codes are those of AWS, gRPC,
SQL, MCP, google-adk, OpenAI and Anthropic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from switchgear.arguments import is_whole
from switchgear.classify.by_type import type_of
from switchgear.classify.classification import Classification
from switchgear.classify.waits import from_headers, in_data, of_error, of_grpc
from switchgear_schemas.enums import ErrorClass

_BY_STATUS: Final[dict[int, ErrorClass]] = {
    401: "auth",
    402: "auth",
    403: "auth",
    407: "auth",
    408: "timeout",
    429: "rate_limited",
    499: "cancelled",
    504: "timeout",
}
_LIMITED: Final = frozenset({403, 429})
_OVERLOADED: Final = frozenset({503, 529})
"""529 is Anthropic's ``overloaded_error``."""
_STATUS_FIELDS: Final = ("status", "statusCode", "status_code", "httpStatus", "http_status")


def by_itself(error: BaseException) -> Classification | None:
    """Return the class that one of our own exceptions names in ``switchgear_class``, None for other exceptions."""
    found = getattr(error, "switchgear_class", None)
    return found if isinstance(found, Classification) else None


def by_status(error: BaseException) -> Classification | None:
    """Return the class of the exception's HTTP status, None without a status of 300 or more.

    A redirect that a client raises as an error is ``tool``, because the server answered. If the type says more, as for too
    many redirects, the type decides. A 403 that asks to wait is ``rate_limited``: so GitHub answers a client above its limits
    (docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    status, kind = http_status(error), type_of(error)
    if status is None or status < 300 or (status < 400 and kind.by_library is not None):
        return None
    if kind.by_library == "transport" and "litellm" in kind.libraries:  # it puts 500 there, without an answer
        return None
    found = class_of_status(status)
    may_ask = status in _LIMITED or status in _OVERLOADED
    wait = of_error(error) if may_ask else None
    return Classification("rate_limited" if status == 403 and wait is not None else found, wait)


def class_of_status(status: int) -> ErrorClass:
    """Return the class of a status of 300 or more."""
    if status < 400:
        return "tool"
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "invalid_input")


def class_of_digits(code: object) -> ErrorClass | None:
    """Return the class of a code that is a status as text (``"502"``), None for other codes."""
    if isinstance(code, str) and re.fullmatch("[345][0-9]{2}", code):
        return class_of_status(int(code))
    return None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of the exception's response or of the exception itself, None without one."""
    for holder in (_response(error), error):
        for name in ("status_code", "status", "code", "api_error_status"):  # the last is of claude-agent-sdk
            value = getattr(holder, name, None)
            if is_whole(value) and 100 <= value <= 599:
                return int(value)
    return None


def _response(error: BaseException) -> Any:
    try:
        return getattr(error, "response", None)
    except ValueError:  # pydantic-ai's RunCancelled computes it, and has none
        return None


def by_data(data: object) -> Classification | None:
    """Return the class of what a server says about its failure in fields of its own: MCP's ``error.data`` and ``_meta``.

    It is that of a ``status`` (also ``statusCode`` and the like) of 429, 503 or 529. Without one, it is ``rate_limited`` if the
    server asks to wait. Don't give it what a tool returned as its content: that may be about something else.
    """
    if not isinstance(data, Mapping):
        return None
    status = next((data[name] for name in _STATUS_FIELDS if is_whole(data.get(name))), None)
    if status == 429 or status in _OVERLOADED:
        return Classification(class_of_status(status), in_data(data))
    wait = in_data(data, depth=1)
    return None if wait is None else Classification("rate_limited", wait)


_AWS: Final[tuple[tuple[str, ErrorClass], ...]] = (
    # botocore/retries/standard.py: ThrottledRetryableChecker and TransientRetryableChecker
    (r"throttl|toomanyrequests|slowdown|(?:throughput|request|bandwidth)limit|throughputexceeded", "rate_limited"),
    (r"^limitexceeded|modelnotready|priorrequestnotcomplete|transactioninprogress", "rate_limited"),
    (r"timeout", "timeout"),
    (r"accessdenied|authfailure|unauthorized|unrecognizedclient|optinrequired|accesskeyid|clienttokenid", "auth"),
    (r"expiredtoken|requestexpired|authenticationtoken|signature", "auth"),
    (r"^internal|badgateway|serviceunavailable|servicefailure|modelstreamerror", "server"),
    (r"badrequest|conflict|invalidrequest|resourcenotfound|validation", "invalid_input"),
)
"""Parts of error codes. The first that matches decides."""


def by_aws_code(error: BaseException) -> Classification | None:
    """Return the class of botocore's ClientError, None for other exceptions.

    The code in ``response["Error"]["Code"]`` decides, then the HTTP status, which is often 400 whatever is wrong. An error in
    an event stream (EventStreamError) has only a code, in lower camel case: ``throttlingException``.
    """
    response = _response(error)
    if not isinstance(response, Mapping):
        return None
    metadata = response.get("ResponseMetadata") or {}
    code, status = str((response.get("Error") or {}).get("Code")), metadata.get("HTTPStatusCode")
    found = next((found for pattern, found in _AWS if re.search(pattern, code, re.IGNORECASE)), None)
    # Without a body, as for S3's HEAD, botocore puts the status into the code.
    found = found or class_of_digits(str(status)) or class_of_digits(code)
    if found is None:
        return None
    may_ask = found == "rate_limited" or status == 503
    return Classification(found, from_headers(metadata.get("HTTPHeaders", {})) if may_ask else None)


_GRPC: Final[dict[ErrorClass, str]] = {
    "auth": "PERMISSION_DENIED UNAUTHENTICATED",
    "cancelled": "CANCELLED",
    "invalid_input": "ALREADY_EXISTS FAILED_PRECONDITION INVALID_ARGUMENT NOT_FOUND OUT_OF_RANGE",
    "rate_limited": "RESOURCE_EXHAUSTED",
    "server": "DATA_LOSS INTERNAL UNIMPLEMENTED",
    "timeout": "DEADLINE_EXCEEDED",
    "tool": "ABORTED",
    "transport": "UNAVAILABLE",
    "unknown": "UNKNOWN",
}
_BY_GRPC_CODE: Final = {code: error_class for error_class, codes in _GRPC.items() for code in codes.split()}


def by_grpc_code(error: BaseException) -> Classification | None:
    """Return the class of the status code of an RpcError of either stack, None for other exceptions.

    UNAVAILABLE usually means that there is no connection.
    """
    code = getattr(error, "code", None) if "grpc" in type_of(error).libraries else None
    if not callable(code):
        return None
    found = _BY_GRPC_CODE.get(getattr(code(), "name", ""))
    if found is None:
        return None
    may_ask = found in {"rate_limited", "transport"}
    return Classification(found, of_grpc(error) if may_ask else None)


_BY_STATE: Final[dict[str, ErrorClass]] = {
    "42501": "auth",  # insufficient privilege
    "57014": "timeout",  # usually the time limit of the statement
}
_BY_PREFIX: Final[dict[str, ErrorClass]] = {
    "08": "transport",
    "22": "invalid_input",
    "23": "invalid_input",
    "28": "auth",
    "3D": "invalid_input",
    "3F": "invalid_input",
    "40": "tool",  # serialization failure or deadlock: the database works
    "42": "invalid_input",
    "53": "server",  # out of connections, memory, disk
    "55": "tool",  # the object is locked
    "57": "server",  # shutting down
    "58": "server",
    "XX": "server",
}


def by_sqlstate(error: BaseException) -> Classification | None:
    """Return the class of ``sqlstate`` (psycopg, asyncpg, MySQL) or ``pgcode`` (psycopg2), None for an unknown one."""
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state) == 5:
            found = _BY_STATE.get(state) or _BY_PREFIX.get(state[:2])
            return None if found is None else Classification(found)
    return None


_MCP: Final[dict[int, ErrorClass]] = {
    408: "timeout",  # SDK 1 reports its own time limit by HTTP's number
    429: "rate_limited",  # some servers do the same
    -32000: "transport",  # connection closed
    -32001: "timeout",  # request timeout
    -32002: "invalid_input",  # resource not found
    -32042: "auth",  # the user has to sign in first
    -32600: "invalid_input",
    -32601: "invalid_input",  # no such method
    -32602: "invalid_input",  # no such tool, or wrong arguments
    -32603: "server",
    -32700: "server",
}


_MAY_BE_LIMITED: Final = frozenset({None, "rate_limited", "server", "transport"})
"""What the codes say for which servers have no better one, as -32000 and -32603."""


def by_mcp_code(error: BaseException) -> Classification | None:
    """Return the class of an MCP error, None for other exceptions."""
    if not type_of(error).libraries & {"mcp", "mcp_types", "fastmcp"}:
        return None
    inner = getattr(error, "error", None)
    code = getattr(inner, "code", None)
    if not is_whole(code):
        return None
    return of_mcp_error(code, getattr(inner, "data", None))


def of_mcp_error(code: int, data: object) -> Classification:
    """Return the class of an MCP error. An unknown code is ``tool``, because the server answered.

    If the code isn't about the request, the error's ``data`` may say that the server is limited or overloaded.
    """
    found = _MCP.get(code)
    said = by_data(data) if found in _MAY_BE_LIMITED else None
    return said or Classification(found or "tool")


def by_adk_type(error: BaseException) -> Classification | None:
    """Return the class of the ``error_type`` of google-adk's ToolExecutionError, None for other exceptions.

    The type is a status as text, or its name: ``SERVICE_UNAVAILABLE``.
    """
    word = getattr(error, "error_type", None) if "google" in type_of(error).libraries else None
    if not isinstance(word, str):
        return None
    import http  # noqa: PLC0415 - few programs need it

    status = http.HTTPStatus.__members__.get(word)
    found = class_of_digits(word if status is None else str(status.value))
    return None if found is None else Classification(found)


_OF_PROVIDERS: Final[dict[ErrorClass, str]] = {
    "auth": "authentication_error billing_error permission_error",
    "invalid_input": "context_length_exceeded invalid_request_error not_found_error request_too_large",
    "rate_limited": "insufficient_quota rate_limit_error rate_limit_exceeded tokens",
    "server": "api_error overloaded_error server_error",
    "timeout": "timeout_error",
}
"""Codes and types of OpenAI and Anthropic."""
_BY_WORD: Final = {word: error_class for error_class, words in _OF_PROVIDERS.items() for word in words.split()}


def by_body(error: BaseException) -> Classification | None:
    """Return the class of the ``code`` or ``type`` of an OpenAI or Anthropic error, None for other exceptions.

    Similar SDKs also carry a ``body``. Gateways write a status into the code: ``"502"``.
    """
    if getattr(error, "body", None) is None:
        return None
    for name in ("code", "type"):
        word = getattr(error, name, None)
        found = (_BY_WORD.get(word) or class_of_digits(word)) if isinstance(word, str) else None
        if found is not None:
            return Classification(found)
    return None
