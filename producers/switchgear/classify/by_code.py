"""Classify exceptions by the error code that they carry: AWS, gRPC, SQL, MCP, OpenAI and Anthropic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from switchgear.classify.by_status import class_of_digits, from_headers
from switchgear.classify.classification import Classification, family
from switchgear.numeric import is_whole
from switchgear_schemas.enums import ErrorClass

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
    response = getattr(error, "response", None)
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
    code = getattr(error, "code", None) if "grpc" in family(error) else None
    if not callable(code):
        return None
    found = _BY_GRPC_CODE.get(getattr(code(), "name", ""))
    if found is None:
        return None
    may_ask = found in {"rate_limited", "transport"}
    return Classification(found, _grpc_retry_after(error) if may_ask else None)


def _grpc_retry_after(error: Any) -> float | None:
    """Return the seconds that the trailing metadata asks to wait.

    They are in ``grpc-retry-pushback-ms`` (gRFC A6), or in a google.rpc.RetryInfo among the details of the status.
    """
    try:
        trailing = dict(error.trailing_metadata())
        if "grpc-retry-pushback-ms" in trailing:
            milliseconds = int(trailing["grpc-retry-pushback-ms"])
            return milliseconds / 1000 if milliseconds >= 0 else None  # -1: don't try again
        return _retry_info_s(trailing["grpc-status-details-bin"])
    except Exception:  # noqa: BLE001 - it is missing or odd; the class of the failure is known all the same
        return None


def _retry_info_s(status: bytes) -> float | None:
    """Return the wait in the details of a status, None without one or without grpcio-status, which brings the message types."""
    try:
        from google.rpc import error_details_pb2, status_pb2  # noqa: PLC0415 - optional
    except ImportError:
        return None
    info: Any = error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(status).details:
        if detail.Unpack(info):
            return max(0.0, float(info.retry_delay.ToTimedelta().total_seconds()))
    return None


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


def by_mcp_code(error: BaseException) -> Classification | None:
    """Return the class of an MCP error, None for other exceptions. An unknown code is ``tool``, because the server answered."""
    if not family(error) & {"mcp", "mcp_types", "fastmcp"}:
        return None
    code = getattr(getattr(error, "error", None), "code", None)
    if not is_whole(code):
        return None
    return Classification(_MCP.get(code, "tool"))


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
