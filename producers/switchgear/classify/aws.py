"""botocore's ClientError: AWS says what is wrong in a code; the HTTP status is often a bare 400.

An error amid an event stream (EventStreamError) has a code alone, in lower camel case: ``throttlingException``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from switchgear.classify.by_status import class_of_digits, class_of_status
from switchgear.classify.classification import Classification, attribute
from switchgear.classify.retry_after import from_headers
from switchgear_schemas.words import ErrorClass

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
_BY_CODE: Final[tuple[tuple[frozenset[str], ErrorClass], ...]] = (
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
    return next((found for codes, found in _BY_CODE if known in codes), None)


def _of_status(status: object) -> ErrorClass | None:
    """Also of a code: where there was no body, as with S3's HEAD, botocore puts the status there (``"404"``)."""
    if isinstance(status, int):
        return class_of_status(status) if 300 <= status <= 599 else None
    return class_of_digits(status)
