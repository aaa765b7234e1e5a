"""botocore's ClientError: AWS says what is wrong in a code; the HTTP status is often a bare 400."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from switchgear.classify.by_status import class_of_status
from switchgear.classify.classification import Classification, attribute
from switchgear.classify.retry_after import from_headers
from switchgear_schemas.words import ErrorClass

# botocore/retries/standard.py: ThrottledRetryableChecker and TransientRetryableChecker
_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
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
_BROKEN: Final = frozenset({"InternalError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException"})


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
    if code in _THROTTLED:
        return "rate_limited"
    if code in _TIMED_OUT:
        return "timeout"
    if code in _DENIED:
        return "auth"
    return "server" if code in _BROKEN else None


def _of_status(status: object) -> ErrorClass | None:
    """Also of a code: where there was no body, as with S3's HEAD, botocore puts the status there (``"404"``)."""
    number = int(status) if isinstance(status, str) and status.isdecimal() and len(status) == 3 else status
    return class_of_status(number) if isinstance(number, int) and 400 <= number <= 599 else None
