"""Make a tool execution from a span or a log record. The mappings fill in what they read; all else is the same for each."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from switchgear_gateway.otlp.failures import Failure
from switchgear_gateway.otlp.records import Attributes, Log, Span, text
from switchgear_schemas import ToolExecution
from switchgear_schemas.enums import MOST_MS, status_of
from switchgear_schemas.families import split_mcp_name

_MAX_ID: Final = 256
"""The most characters of names that the exporter chooses, except the tool's, which is refused if it is too long."""
SESSION: Final = (
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.conversation_id",
)
"""Attributes with the agent's session. ``langsmith.trace.session_id`` is the project of LangSmith, and ``mcp.session.id`` a connection."""
USER: Final = (
    "traceloop.association.properties.user_id",
    "ai.telemetry.metadata.userId",
    "ai.telemetry.metadata.user_id",
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    "langsmith.metadata.user_id",
)
"""Attributes with the user."""
_UNKNOWN_SERVICE: Final = "unknown_service"
"""How the default ``service.name`` of OpenTelemetry's SDKs begins."""


class UnusableRecordError(ValueError):
    """A span or log record can't become an execution. The message says why."""


def execution_of(
    record: Span | Log,
    *,
    convention: str,
    tool: str | None,
    failure: Failure | None,
    call_id: str | None = None,
    duration_ms: float | None = None,
    **fields: Any,
) -> ToolExecution:
    """Return the execution that a record describes.

    Args:
        record: The span or log record.
        convention: Name and version of the mapping, for the event's metadata.
        tool: Name of the tool.
        failure: How the call failed, None for a success.
        call_id: Identifier that the model gave the call.
        duration_ms: Duration in milliseconds, if it isn't that of the span.
        fields: Further fields of the execution. Of a span, the session and the user are read here.

    Raises:
        UnusableRecordError: The name, the time or the trace is missing.
        pydantic.ValidationError: A value is out of range.
    """
    if not tool:
        raise UnusableRecordError("the tool has no name")
    started, ended = (record.start_ns, record.end_ns) if isinstance(record, Span) else (0, record.time_ns)
    if not ended:
        raise UnusableRecordError("the record has no end time")
    if isinstance(record, Span):
        if len(record.trace_id) != 16 or len(record.span_id) != 8 or not any(record.trace_id):
            raise UnusableRecordError("the span has no valid trace id and span id")
        duration_ms = max(0, ended - started) / 1e6 if started else 0.0
        fields = {"session_id": session_of(record.attributes), "user_id": user_of(record.attributes)} | fields
    known = {
        name: value[:_MAX_ID] if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    metadata = {"otlp": convention} | ({} if call_id is None else {"call_id": call_id[:_MAX_ID]})
    return ToolExecution(
        metric_id=metric_id(ended, _identity(record, tool, call_id)),
        tool_name=tool,
        status="success" if failure is None else status_of(failure.error_class),
        error_class=None if failure is None else failure.error_class,
        error_type=None if failure is None else failure.error_type,
        error_message=None if failure is None else failure.message,
        evidence="full" if failure is None else failure.evidence,
        execution_time_ms=min(duration_ms or 0.0, MOST_MS),
        traceparent=_traceparent(record),
        service=_service(record.resource),
        emitter_id=_emitter(record, known.get("user_id") or known.get("session_id")),
        metadata=metadata,
        recorded_at=datetime.fromtimestamp(ended / 1e9, UTC),
        **known,
    )


def session_of(attributes: Attributes) -> str | None:
    """Return the agent's session that a span names, None if it names none."""
    found = text(attributes, *SESSION)
    return None if found is None else found[:_MAX_ID]


def user_of(attributes: Attributes) -> str | None:
    """Return the user that a span names, None if it names none."""
    found = text(attributes, *USER)
    return None if found is None else found[:_MAX_ID]


def mcp_tool(server: str | None, tool: str | None) -> str | None:
    """Return ``mcp:server:tool``, or the tool's own name if the server is unknown."""
    if not server or not tool:
        return tool
    return f"mcp:{server.replace(':', '-')}:{tool}"


def plain_name(tool: str) -> str:
    """Return a tool's own name: ``search`` of ``mcp:github:search``."""
    return tool.split(":", 2)[2] if tool.startswith("mcp:") and tool.count(":") >= 2 else tool


def tool_in_span_name(name: str) -> str:
    """Return the tool that a span is named after: ``lookup`` of ``lookup.__call__``, as DSPy's instrumentation names it."""
    return name.removesuffix(".__call__").removesuffix(".acall")


def from_claude_name(tool: str | None) -> str | None:
    """Return ``mcp:server:tool`` for ``mcp__server__tool``, as coding agents name MCP tools. Other names stay."""
    found = split_mcp_name(tool or "")
    return tool if found is None else mcp_tool(*found)


def metric_id(ended_ns: int, identity: bytes) -> UUID:
    """Return the same identifier for the same call: a version 8 UUID (RFC 9562) that sorts by the time of its end.

    Args:
        ended_ns: The end, in nanoseconds since 1970.
        identity: What makes the call different from all others.
    """
    digest = int.from_bytes(hashlib.blake2b(identity, digest_size=10).digest())
    milliseconds = ended_ns // 1_000_000 % 2**48
    return UUID(int=milliseconds << 80 | 8 << 76 | (digest >> 62 & 0xFFF) << 64 | 2 << 62 | digest & (2**62 - 1))


def _identity(record: Span | Log, tool: str, call_id: str | None) -> bytes:
    """Return what makes a call unique.

    A span has its ids. The model's call id is not enough, because a retried call has the same one. A log record has none, so its
    session, call id and time are it.
    """
    if isinstance(record, Span):
        return record.trace_id + record.span_id
    session = text(record.attributes, "session.id", "conversation.id")
    sequence = text(record.attributes, "event.sequence", "tool_result_seq", "event.timestamp")
    duration = text(record.attributes, "duration_ms")  # Gemini CLI has neither a call id nor a number
    return "\0".join(map(str, (tool, session, call_id, record.time_ns, sequence, duration))).encode()


def _traceparent(record: Span | Log) -> str | None:
    if len(record.trace_id) != 16 or len(record.span_id) != 8:
        return None
    return f"00-{record.trace_id.hex()}-{record.span_id.hex()}-01"  # it was exported, so it was sampled


def _service(resource: Attributes) -> str:
    name = text(resource, "service.name") or ""
    return "" if name.startswith(_UNKNOWN_SERVICE) else name[:_MAX_ID]


def _emitter(record: Span | Log, person: str | None) -> str:
    """Return the process. Policies with ``minimum_reporters`` count processes by it.

    Coding agents write logs, usually without anything about their process. Then it is the user, which Claude Code and Codex name by an
    id of the installation or the account, else the session: as a hash, because a user's id may be an address.
    """
    resource = record.resource
    instance = text(resource, "service.instance.id")
    if instance is None:
        host, pid = text(resource, "host.name", "k8s.pod.name", "container.id"), text(resource, "process.pid")
        instance = "-".join(part for part in (host, pid) if part is not None)
    if not instance and person and isinstance(record, Log):
        instance = f"~{hashlib.blake2b(person.encode(errors='replace'), digest_size=6).hexdigest()}"
    return "@".join(part for part in (_service(resource), instance) if part)[:_MAX_ID]
