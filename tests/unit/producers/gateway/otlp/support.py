"""Samples, and spans and log records made for one test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from switchgear_gateway.otlp.ingest import Ingest, IngestAnswer
from switchgear_gateway.otlp.mappings import of_log, of_span
from switchgear_gateway.otlp.records import logs_of, spans_of
from switchgear_gateway.otlp.submission import Sender, SubmitResult
from switchgear_schemas import ToolExecution

SAMPLES = Path(__file__).parent / "samples"
INTERNAL, SERVER, CLIENT = 1, 2, 3
START_NS = 1_790_000_000_000_000_000
TRACE = bytes(range(16))


def sample(name: str) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString((SAMPLES / f"{name}.pb").read_bytes())


def log_sample(name: str) -> ExportLogsServiceRequest:
    return ExportLogsServiceRequest.FromString((SAMPLES / f"{name}.pb").read_bytes())


def calls_in(request: ExportTraceServiceRequest) -> list[ToolExecution]:
    """The tool calls of a request, in the order of their ends."""
    found = [execution for span in spans_of(request) if (execution := of_span(span)) is not None]
    return sorted(found, key=lambda each: each.recorded_at)


def logged_calls_in(request: ExportLogsServiceRequest) -> list[ToolExecution]:
    return [execution for record in logs_of(request) if (execution := of_log(record)) is not None]


def put(attributes: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        kind = {bool: "bool_value", int: "int_value", float: "double_value"}.get(type(value), "string_value")
        setattr(attributes.add(key=key).value, kind, value)


def span_request(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> ExportTraceServiceRequest:
    """A request with spans. Each has an ``id`` and maybe ``parent``, ``kind``, ``scope``, ``error``, ``at`` and ``until`` in ms, ``name``,
    and attributes under ``attributes``. A span without attributes of its own is a call of get_forecast."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    put(of_resource.resource.attributes, {"service.name": "agent"} if resource is None else resource)
    for given in spans:
        of_scope = of_resource.scope_spans.add()
        of_scope.scope.name = given.get("scope", "library")
        span = of_scope.spans.add(
            trace_id=given.get("trace", TRACE),
            span_id=given["id"].to_bytes(8, "big"),
            parent_span_id=given["parent"].to_bytes(8, "big") if "parent" in given else b"",
            name=given.get("name", "execute_tool get_forecast"),
            kind=given.get("kind", INTERNAL),
            start_time_unix_nano=START_NS + given.get("at", 0) * 1_000_000,
            end_time_unix_nano=START_NS + given.get("until", 100) * 1_000_000,
        )
        if "error" in given:
            span.status.code = 2
            span.status.message = given["error"]
        put(span.attributes, given.get("attributes", TOOL))
    return request


def empty_spans(number: int) -> bytes:
    """A request with so many spans, of two bytes each."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend([Span()] * number)
    return request.SerializeToString()


def log_request(
    event: str, attributes: dict[str, Any], *, scope: str = "", resource: dict[str, Any] | None = None
) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    put(of_resource.resource.attributes, resource or {})
    of_scope = of_resource.scope_logs.add()
    of_scope.scope.name = scope
    record = of_scope.log_records.add(time_unix_nano=START_NS)
    put(record.attributes, {"event.name": event} | attributes)
    return request


TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_forecast"}
MCP = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_forecast"}


async def take(
    ingest: Ingest, request: ExportTraceServiceRequest | ExportLogsServiceRequest, sender: Sender
) -> IngestAnswer:
    """Let the ingest take a request, as the receivers do."""
    given = ingest.logs if isinstance(request, ExportLogsServiceRequest) else ingest.traces
    return await given(request.SerializeToString(), "protobuf", sender)


class Kafka:
    """Where executions end: it keeps what it acknowledged, and answers what a test asks it to."""

    def __init__(self, *answers: SubmitResult | Exception) -> None:
        self.answers = list(answers)
        self.acknowledged: list[ToolExecution] = []
        self.resent: list[bool] = []

    async def __call__(self, executions: Sequence[ToolExecution], *, resent: bool) -> SubmitResult:
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else SubmitResult()
        if isinstance(answer, Exception):
            raise answer
        lost = {index for index, _ in answer.rejected} | set(answer.unknown)
        if answer.retry_after_s is None:
            self.acknowledged += [each for index, each in enumerate(executions) if index not in lost]
            self.resent.append(resent)
        return answer

    @property
    def tools(self) -> list[str]:
        return [each.tool_name for each in self.acknowledged]

    def sender(self, tenant: str = "") -> Sender:
        return Sender(self, tenant)
