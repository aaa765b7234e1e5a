"""Decode the bodies of OTLP requests: protobuf or JSON."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from switchgear_schemas.errors import SwitchgearError

Encoding = Literal["protobuf", "json"]
M = TypeVar("M", bound=Message)

MAX_BODY_BYTES: Final = 8 * 1_048_576
"""The largest request after unpacking. Of two bytes protobuf can make 170: this many take under a second and 700 MB."""
MAX_RECORDS: Final = 20_000
"""Spans or log records in one request. Exporters send at most a few thousand."""
_MAX_OBJECTS: Final = 500_000
"""JSON objects in one request. A record with ten attributes has twenty."""

_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
"""OTLP's JSON writes these in hexadecimal, where protobuf's JSON has base64."""


class UnreadableBodyError(SwitchgearError):
    """A body isn't what its headers say. The same request must not be sent again."""


class TooManyRecordsError(UnreadableBodyError):
    """A body has more spans or log records than one request may have."""


def traces_from(body: bytes, encoding: Encoding) -> ExportTraceServiceRequest:
    """Return the spans in a body.

    Raises:
        UnreadableBodyError: The body has another format.
        TooManyRecordsError: It has more than :data:`MAX_RECORDS`.
    """
    found = _decoded(body, encoding, ExportTraceServiceRequest())
    _check_number(found.resource_spans, "scope_spans", "spans")
    return found


def logs_from(body: bytes, encoding: Encoding) -> ExportLogsServiceRequest:
    """Return the log records in a body.

    Raises:
        UnreadableBodyError: The body has another format.
        TooManyRecordsError: It has more than :data:`MAX_RECORDS`.
    """
    found = _decoded(body, encoding, ExportLogsServiceRequest())
    _check_number(found.resource_logs, "scope_logs", "log_records")
    return found


def encoding_of(body: bytes) -> Encoding:
    """Return the format of a message that has no headers. A protobuf request never begins like a JSON object."""
    return "json" if body.lstrip()[:1] == b"{" else "protobuf"


def _decoded(body: bytes, encoding: Encoding, message: M) -> M:
    kind = message.DESCRIPTOR.name
    try:
        if encoding == "protobuf":
            message.ParseFromString(body)
            return message
        if body.count(b"{") > _MAX_OBJECTS:
            raise _too_many()
        given = json.loads(body)
        if not isinstance(given, dict):
            raise UnreadableBodyError(f"The body is a JSON {type(given).__name__}, not an object.")
        for record in _records(given):
            _hex_to_base64(record)
        return json_format.ParseDict(given, message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        raise UnreadableBodyError(f"The body isn't an {kind} in {encoding}: {str(error)[:200]}.") from None


def _check_number(resources: Sequence[Any], scopes: str, records: str) -> None:
    """Check, before more is made of them, that a request doesn't have too many records. Empty resources and scopes cost time too."""
    numbers: tuple[Callable[[], int], ...] = (
        lambda: len(resources),
        lambda: sum(len(getattr(resource, scopes)) for resource in resources),
        lambda: sum(len(getattr(scope, records)) for resource in resources for scope in getattr(resource, scopes)),
    )
    if any(number() > MAX_RECORDS for number in numbers):
        raise _too_many()


def _too_many() -> TooManyRecordsError:
    return TooManyRecordsError(
        f"The body has more than {MAX_RECORDS:,} spans or log records.", hint="Let the exporter send smaller batches."
    )


def _records(given: dict[str, Any]) -> Iterator[Any]:
    """Yield the spans, their links, and the log records of a request in JSON. What has another shape is left to protobuf's check."""
    for of_resource in _list(given, "resourceSpans", "resource_spans", "resourceLogs", "resource_logs"):
        for of_scope in _list(of_resource, "scopeSpans", "scope_spans", "scopeLogs", "scope_logs"):
            for record in _list(of_scope, "spans", "logRecords", "log_records"):
                yield record
                yield from _list(record, "links")


def _list(given: Any, *names: str) -> list[Any]:
    found = [given.get(name) for name in names] if isinstance(given, dict) else []
    return [each for value in found if isinstance(value, list) for each in value]


def _hex_to_base64(record: Any) -> None:
    for name in _IDS if isinstance(record, dict) else ():
        value = record.get(name)
        if isinstance(value, str):
            try:
                record[name] = base64.b64encode(bytes.fromhex(value)).decode()
            except (ValueError, binascii.Error):
                raise UnreadableBodyError(f"{name} is {value!r:.60}, not hexadecimal.") from None
