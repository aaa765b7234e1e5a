"""Classify exceptions by the error code that they carry: AWS, gRPC, SQL, MCP, OpenAI and Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from switchgear.classify.by_status import class_of_digits, class_of_status, from_headers
from switchgear.classify.classification import Classification, attribute, family
from switchgear.numeric import is_whole
from switchgear_schemas.enums import ErrorClass

# botocore/retries/standard.py: ThrottledRetryableChecker and TransientRetryableChecker
_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "ModelNotReadyException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
_TIMED_OUT: Final = frozenset({"RequestTimeout", "RequestTimeoutException", "ModelTimeoutException"})
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_BROKEN: Final = frozenset(
    {
        "BadGatewayException",
        "InternalError",
        "InternalFailure",
        "InternalFailureException",
        "InternalServerError",
        "InternalServerException",
        "InternalStreamFailure",
        "ModelStreamError",
        "ModelStreamErrorException",
        "ServiceFailureException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
_WRONG: Final = frozenset(
    {
        "BadRequestException",
        "ConflictException",
        "InvalidRequestException",
        "ResourceNotFoundException",
        "ValidationException",
    }
)
_AWS: Final[tuple[tuple[frozenset[str], ErrorClass], ...]] = (
    (_THROTTLED, "rate_limited"),
    (_TIMED_OUT, "timeout"),
    (_DENIED, "auth"),
    (_BROKEN, "server"),
    (_WRONG, "invalid_input"),
)


def by_aws_code(error: BaseException) -> Classification | None:
    """Return the class of botocore's ClientError, None for other exceptions.

    The code in ``response["Error"]["Code"]`` decides, then the HTTP status, which is often 400 whatever is wrong. An error in
    an event stream (EventStreamError) has only a code, in lower camel case: ``throttlingException``.
    """
    response = attribute(error, "response")
    if not isinstance(response, Mapping):
        return None
    details, metadata = response.get("Error"), response.get("ResponseMetadata")
    code = details.get("Code") if isinstance(details, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    if not isinstance(code, str) and not isinstance(status, int):
        return None
    found = _of_code(code) or _of_status(status) or _of_status(code)
    if found is None:
        return None
    headers: Any = metadata.get("HTTPHeaders") if isinstance(metadata, Mapping) else None
    may_ask = isinstance(headers, Mapping) and (found == "rate_limited" or status == 503)
    return Classification(found, from_headers(headers) if may_ask else None)


def _of_code(code: object) -> ErrorClass | None:
    if not isinstance(code, str):
        return None
    known = code[:1].upper() + code[1:]
    return next((found for codes, found in _AWS if known in codes), None)


def _of_status(status: object) -> ErrorClass | None:
    """Return the class of a status. botocore puts it into the code if there is no body, as with S3's HEAD: ``"404"``."""
    if isinstance(status, int):
        return class_of_status(status) if 300 <= status <= 599 else None
    return class_of_digits(status)


_BY_GRPC_CODE: Final[dict[str, ErrorClass]] = {
    "ABORTED": "tool",
    "ALREADY_EXISTS": "invalid_input",
    "CANCELLED": "cancelled",
    "DATA_LOSS": "server",
    "DEADLINE_EXCEEDED": "timeout",
    "FAILED_PRECONDITION": "invalid_input",
    "INTERNAL": "server",
    "INVALID_ARGUMENT": "invalid_input",
    "NOT_FOUND": "invalid_input",
    "OUT_OF_RANGE": "invalid_input",
    "PERMISSION_DENIED": "auth",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAUTHENTICATED": "auth",
    "UNAVAILABLE": "transport",
    "UNIMPLEMENTED": "server",
    "UNKNOWN": "unknown",
}


def by_grpc_code(error: BaseException) -> Classification | None:
    """Return the class of the status code of an RpcError of either stack, None for other exceptions.

    UNAVAILABLE usually means that there is no connection.
    """
    code = attribute(error, "code") if "grpc" in family(error) else None
    if not callable(code):
        return None
    found = _BY_GRPC_CODE.get(attribute(code(), "name") or "")
    if found is None:
        return None
    may_ask = found in {"rate_limited", "transport"}
    return Classification(found, _grpc_retry_after(error) if may_ask else None)


def _grpc_retry_after(error: BaseException) -> float | None:
    """Return the seconds that the trailing metadata asks to wait.

    They are in ``grpc-retry-pushback-ms`` (gRFC A6), or in a google.rpc.RetryInfo among the details of the status.
    """
    trailing = attribute(error, "trailing_metadata")
    try:
        for key, value in (trailing() if callable(trailing) else None) or ():
            if key == "grpc-retry-pushback-ms":
                text = value.decode() if isinstance(value, bytes) else value
                return int(text) / 1000 if text.isdecimal() else None
            if key == "grpc-status-details-bin":
                return _retry_info_s(value)
    except Exception:  # noqa: BLE001 - a server sent something odd; the class of the failure is known all the same
        return None
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
        state = attribute(error, name)
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
    code = attribute(attribute(error, "error"), "code")
    if not is_whole(code):
        return None
    return Classification(_MCP.get(code, "tool"))


_BY_WORD: Final[dict[str, ErrorClass]] = {
    # codes and types of OpenAI
    "context_length_exceeded": "invalid_input",
    "insufficient_quota": "rate_limited",
    "invalid_request_error": "invalid_input",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "tokens": "rate_limited",
    # types of Anthropic
    "api_error": "server",
    "authentication_error": "auth",
    "billing_error": "auth",
    "not_found_error": "invalid_input",
    "overloaded_error": "server",
    "permission_error": "auth",
    "rate_limit_error": "rate_limited",
    "request_too_large": "invalid_input",
    "timeout_error": "timeout",
}


def by_body(error: BaseException) -> Classification | None:
    """Return the class of the ``code`` or ``type`` of an OpenAI or Anthropic error, None for other exceptions.

    Similar SDKs also carry a ``body``. Gateways write a status into the code: ``"502"``.
    """
    if attribute(error, "body") is None:
        return None
    for name in ("code", "type"):
        word = attribute(error, name)
        found = (_BY_WORD.get(word) or class_of_digits(word)) if isinstance(word, str) else None
        if found is not None:
            return Classification(found)
    return None
