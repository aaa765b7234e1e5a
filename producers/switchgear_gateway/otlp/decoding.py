"""Decode the bodies of OTLP requests: protobuf or JSON."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from switchgear_gateway.bodies import without_bom
from switchgear_gateway.otlp.parts import (
    MAX_RECORDS,
    Encoding,
    TooManyRecordsError,
    UnreadableBodyError,
    fields_in,
    too_many_records,
)
from switchgear_http.json_cost import is_dear

M = TypeVar("M", bound=Message)

MAX_BODY_BYTES: Final = 8 * 1_048_576
"""The largest request after unpacking."""
MAX_MESSAGES: Final = 24_000
"""Messages of protobuf in one decoding: attributes, their values, events and links. Each takes up to 170 bytes."""
_MAX_FIELDS: Final = 100_000
_FEW_BYTES: Final = 16_384
"""So many bytes can't have too many messages."""

_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
"""OTLP's JSON writes these in hexadecimal, where protobuf's JSON has base64."""


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
    return "json" if without_bom(body).lstrip()[:1] == b"{" else "protobuf"


def _decoded(body: bytes, encoding: Encoding, message: M) -> M:
    kind = message.DESCRIPTOR.name
    try:
        if encoding == "protobuf":
            _check_messages(body, message)
            message.ParseFromString(body)
            return message
        if is_dear(body):
            raise _too_much()
        given = json.loads(without_bom(body))
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
        raise too_many_records()


def _check_messages(body: bytes, message: Message) -> None:
    """Count the messages in a body before they are made. What looks like a message and isn't one is left to protobuf.

    Raises:
        TooManyRecordsError: There are too many.
    """
    if len(body) <= _FEW_BYTES:
        return
    messages = fields = 0
    places = [(fields_in(body, 0, len(body)), message.DESCRIPTOR)]
    while places:
        inside, kind = places[-1]
        place = next(inside, None)
        if place is None:
            places.pop()
            continue
        fields += 1
        number, _, at, end = place
        field = kind.fields_by_number.get(number)
        if field is not None and field.message_type is not None:
            messages += 1
            places.append((fields_in(body, at, end), field.message_type))
        if messages > MAX_MESSAGES or fields > _MAX_FIELDS:
            raise _too_much()


def _too_much() -> TooManyRecordsError:
    return TooManyRecordsError(
        "A span, a log record or its resource has too many attributes, events and links.",
        hint=f"Send at most {MAX_MESSAGES // 2:,} attributes in one record.",
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
    """Write a record's ids as protobuf's JSON has them. One that isn't hexadecimal is none: the call alone is rejected, not its batch."""
    for name in _IDS if isinstance(record, dict) else ():
        value = record.get(name)
        if isinstance(value, str):
            try:
                record[name] = base64.b64encode(bytes.fromhex(value)).decode()
            except (ValueError, binascii.Error):
                record[name] = ""
