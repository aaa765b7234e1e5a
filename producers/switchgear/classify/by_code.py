"""botocore's ClientError: AWS says what is wrong in a code; the HTTP status is often a bare 400.

An error amid an event stream (EventStreamError) has a code alone, in lower camel case: ``throttlingException``.
"""

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
    """Classify by ``response["Error"]["Code"]``, else by ``response["ResponseMetadata"]["HTTPStatusCode"]``; None without a response of AWS."""
    response = attribute(error, "response")
    if not isinstance(response, Mapping):
        return None
    told, metadata = response.get("Error"), response.get("ResponseMetadata")
    code = told.get("Code") if isinstance(told, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    if not isinstance(code, str) and not isinstance(status, int):
        return None
    found = _of_code(code) or _of_status(status) or _of_status(code)
    if found is None:
        return None
    headers: Any = metadata.get("HTTPHeaders") if isinstance(metadata, Mapping) else None
    asks = isinstance(headers, Mapping) and (found == "rate_limited" or status == 503)
    return Classification(found, from_headers(headers) if asks else None)


def _of_code(code: object) -> ErrorClass | None:
    if not isinstance(code, str):
        return None
    known = code[:1].upper() + code[1:]
    return next((found for codes, found in _AWS if known in codes), None)


def _of_status(status: object) -> ErrorClass | None:
    """Also of a code: where there was no body, as with S3's HEAD, botocore puts the status there (``"404"``)."""
    if isinstance(status, int):
        return class_of_status(status) if 300 <= status <= 599 else None
    return class_of_digits(status)


_BY_STATE: Final[dict[str, ErrorClass]] = {
    "42501": "auth",  # insufficient privilege
    "57014": "timeout",  # the statement's time limit, as a rule
}
_BY_PREFIX: Final[dict[str, ErrorClass]] = {
    "08": "transport",
    "22": "invalid_input",
    "23": "invalid_input",
    "28": "auth",
    "3D": "invalid_input",
    "3F": "invalid_input",
    "40": "tool",  # serialization failure, deadlock: it works, try again
    "42": "invalid_input",
    "53": "server",  # out of connections, memory, disk
    "55": "tool",  # the object is locked
    "57": "server",  # shutting down
    "58": "server",
    "XX": "server",
}


def by_sqlstate(error: BaseException) -> Classification | None:
    """Classify by ``sqlstate`` (psycopg, asyncpg, MySQL) or ``pgcode`` (psycopg2), None without one that is known."""
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
    """Classify by the code; one that the server made up is class ``tool``: it answered. None for other exceptions."""
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
    """Classify by the ``code`` and ``type`` of an OpenAI or Anthropic error, and of SDKs made alike (they carry a ``body``).

    Gateways and servers made alike write a status into the code: ``"502"``.
    """
    if attribute(error, "body") is None:
        return None
    for name in ("code", "type"):
        word = attribute(error, name)
        found = (_BY_WORD.get(word) or class_of_digits(word)) if isinstance(word, str) else None
        if found is not None:
            return Classification(found)
    return None
