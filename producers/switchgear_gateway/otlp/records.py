"""Spans and log records as the mappings read them, from the protobuf messages of OTLP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1 import trace_pb2

from switchgear_schemas.enums import MOST_TOKENS

Value = str | bool | int | float
Attributes = Mapping[str, Value]

CLIENT: Final = int(trace_pb2.Span.SPAN_KIND_CLIENT)
SERVER: Final = int(trace_pb2.Span.SPAN_KIND_SERVER)
_MAX_ATTRIBUTES: Final = 1_000
"""Attributes of one record or resource that are read. SDKs keep 128."""
_MAX_EVENTS: Final = 100
"""The last events of a span that are read."""
_EXCEPTIONS: Final = frozenset({"exception", "gen_ai.execute_tool.exception"})


class RecordedException(NamedTuple):
    """The exception in an event of a span. The stack trace is left out."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Attributes that are lists, maps or bytes are left out, because no mapping reads them."""

    name: str
    kind: int
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for the root of a trace."""
    start_ns: int
    end_ns: int
    failed: bool
    """Whether the status is an error."""
    status_message: str
    scope: str
    """Name of the instrumentation library."""
    attributes: Attributes
    resource: Attributes
    exception: RecordedException | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """One log record."""

    event: str
    """Name of the event: of the record, of its attribute ``event.name``, or its body if that is a text."""
    time_ns: int
    trace_id: bytes
    span_id: bytes
    attributes: Attributes
    resource: Attributes
    scope: str = field(default="")


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield the spans of a request."""
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _span(span, of_scope.scope.name, resource)


def logs_of(request: ExportLogsServiceRequest) -> Iterator[Log]:
    """Yield the log records of a request."""
    for of_resource in request.resource_logs:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_logs:
            for record in of_scope.log_records:
                yield _log(record, of_scope.scope.name, resource)


def _span(span: trace_pb2.Span, scope: str, resource: Attributes) -> Span:
    return Span(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_span_id,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        status_message=span.status.message,
        scope=scope,
        attributes=_attributes(span.attributes),
        resource=resource,
        exception=_exception(span),
    )


def _exception(span: trace_pb2.Span) -> RecordedException | None:
    """Return the last exception of a span: a retry inside may have recorded earlier ones."""
    for event in islice(reversed(span.events), _MAX_EVENTS):
        if event.name in _EXCEPTIONS:
            found = _attributes(event.attributes)
            return RecordedException(text(found, "exception.type") or "", text(found, "exception.message") or "")
    return None


def _log(record: LogRecord, scope: str, resource: Attributes) -> Log:
    attributes = _attributes(record.attributes)
    body = record.body.string_value if record.body.HasField("string_value") else ""
    return Log(
        event=text(attributes, "event.name") or record.event_name or body[:100],
        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
        trace_id=record.trace_id,
        span_id=record.span_id,
        attributes=attributes,
        resource=resource,
        scope=scope,
    )


def _attributes(given: Sequence[KeyValue]) -> Attributes:
    found: dict[str, Value] = {}
    for each in islice(given, _MAX_ATTRIBUTES):
        kind = each.value.WhichOneof("value")
        if kind in {"string_value", "int_value", "bool_value", "double_value"}:
            found[each.key] = getattr(each.value, kind)
    return found


def text(attributes: Attributes, *names: str) -> str | None:
    """Return the first of these attributes that isn't empty, as text. None if there is none."""
    for name in names:
        value = attributes.get(name)
        if value not in {None, ""}:
            return str(value)
    return None


def whole(attributes: Attributes, *names: str) -> int:
    """Return the first of these attributes that is a whole number of at least 0, or 0. One call has at most :data:`MOST_TOKENS`."""
    for name in names:
        value = attributes.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**63:
            return min(int(value), MOST_TOKENS)
    return 0


def number(attributes: Attributes, name: str) -> float | None:
    """Return an attribute as a number of at least 0, also if it is a text: some programs write all values as text."""
    value = attributes.get(name)
    try:
        found = float(value) if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < float("inf") else None


def truth(attributes: Attributes, name: str) -> bool | None:
    """Return an attribute that is true or false, also as text. None if it is missing or something else."""
    return {"true": True, "false": False}.get(str(attributes.get(name)).lower())
