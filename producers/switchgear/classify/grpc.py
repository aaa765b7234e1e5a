"""gRPC's RpcError, of both stacks: its status code, and the wait that the server asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from switchgear.classify.classification import Classification, attribute, family
from switchgear_schemas.enums import ErrorClass

_BY_CODE: Final[dict[str, ErrorClass]] = {
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
_RETRY_INFO: Final = b"/google.rpc.RetryInfo"
_MAX_DETAILS: Final = 64 * 1024


def by_grpc_code(error: BaseException) -> Classification | None:
    """Classify by ``error.code()``, None where it is no RpcError with a code. UNAVAILABLE is no connection, as a rule."""
    code = attribute(error, "code") if "grpc" in family(error) else None
    if not callable(code):
        return None
    found = _BY_CODE.get(attribute(code(), "name") or "")
    if found is None:
        return None
    asks = found in {"rate_limited", "transport"}
    return Classification(found, _retry_delay(error) if asks else None)


def _retry_delay(error: BaseException) -> float | None:
    """Seconds from the trailing metadata; None where it can't be read: that must not cost the failure its class."""
    trailing = attribute(error, "trailing_metadata")
    try:
        return _asked_for(trailing() if callable(trailing) else None)
    except Exception:  # noqa: BLE001 - a foreign method, and what a server or a proxy sent
        return None


def _asked_for(metadata: Any) -> float | None:
    """From ``grpc-retry-pushback-ms`` (gRFC A6), or a google.rpc.RetryInfo among the status' details."""
    for key, value in metadata or ():
        if key == "grpc-retry-pushback-ms":
            text = value.decode() if isinstance(value, bytes) else value
            return int(text) / 1000 if text.isdecimal() else None
        if key == "grpc-status-details-bin" and isinstance(value, bytes) and len(value) <= _MAX_DETAILS:
            return _in_status(value)
    return None


def _in_status(status: bytes) -> float | None:
    """google.rpc.Status: ``repeated Any details = 3``; Any: type_url 1, value 2; RetryInfo: ``Duration retry_delay = 1``."""
    try:
        for detail in _all(status, 3):
            inner = dict(_fields(detail))
            if _bytes(inner.get(1)).endswith(_RETRY_INFO):
                delay = dict(_fields(next(iter(_all(_bytes(inner.get(2)), 1)), b"")))
                seconds = _whole(delay.get(1)) + _whole(delay.get(2)) / 1e9
                return seconds if math.isfinite(seconds) else None
    except _TruncatedError:
        return None
    return None


class _TruncatedError(Exception):
    """The bytes end within a field, or are no protocol buffer."""


def _all(message: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in _fields(message) if field == number and isinstance(value, bytes))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of a protocol buffer message (protobuf.dev/programming-guides/encoding)."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value: Any
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
            case 2:
                size, at = _varint(message, at)
                value, at = message[at : at + size], at + size
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
                value, at = message[at : at + size], at + size
            case _:
                raise _TruncatedError
        if at > len(message):
            raise _TruncatedError
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise _TruncatedError
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _TruncatedError


def _bytes(value: object) -> bytes:
    """A length-delimited field's bytes; empty where it is absent or something else."""
    return value if isinstance(value, bytes) else b""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value < 2**63 else 0  # a negative Duration is a varint of 64 bits
