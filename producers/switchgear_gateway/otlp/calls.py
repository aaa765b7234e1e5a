"""Read the tool calls of a request of OTLP, or of a part of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

import pydantic

from switchgear_gateway.otlp.context import kept
from switchgear_gateway.otlp.decoding import logs_from, traces_from
from switchgear_gateway.otlp.executions import UnusableRecordError
from switchgear_gateway.otlp.mappings import is_recognised, of_log, of_span
from switchgear_gateway.otlp.parts import Encoding
from switchgear_gateway.otlp.records import Log, Span, logs_of, spans_of
from switchgear_gateway.otlp.sources import looks_like_a_tool
from switchgear_schemas import ToolExecution

R = TypeVar("R", Span, Log)

_CALL_BYTES: Final = 4_500
_RECORD_BYTES: Final = 600
"""What a tool call and a record take in memory until they are sent."""


@dataclass(frozen=True, slots=True)
class Calls(Generic[R]):
    """What some parts of a body have."""

    records: list[R] = field(default_factory=list)
    """Only with what is read until they are counted."""
    executions: list[tuple[R, ToolExecution]] = field(default_factory=list)
    """The tool calls among the records."""
    reasons: list[str] = field(default_factory=list)
    """Why each of the others among the tool calls can't be used."""
    unmatched: list[R] = field(default_factory=list)
    """Those that look like tool calls, but no mapping reads them."""

    def extend(self, other: Calls[R]) -> None:
        """Add another part."""
        self.records.extend(other.records)
        self.executions.extend(other.executions)
        self.reasons.extend(other.reasons)
        self.unmatched.extend(other.unmatched)

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        return _RECORD_BYTES * len(self.records) + _CALL_BYTES * len(self.executions)


def calls_in_traces(body: bytes, encoding: Encoding) -> Calls[Span]:
    """Return the tool calls among the spans of a request.

    Raises:
        UnreadableBodyError: The body has another format, or too much in it.
    """
    found: Calls[Span] = Calls()
    for span in spans_of(traces_from(body, encoding)):
        record = kept(span)
        found.records.append(record)
        execution = _mapped(of_span, span, found.reasons)
        if execution is not None:
            found.executions.append((record, execution))
        if looks_like_a_tool(span) and not is_recognised(span):
            found.unmatched.append(record)
    return found


def calls_in_logs(body: bytes, encoding: Encoding) -> Calls[Log]:
    """Return the tool calls among the log records of a request.

    Raises:
        UnreadableBodyError: The body has another format, or too much in it.
    """
    found: Calls[Log] = Calls()
    for log in logs_of(logs_from(body, encoding)):
        record = replace(log, attributes={}, resource={})
        found.records.append(record)
        execution = _mapped(of_log, log, found.reasons)
        if execution is not None:
            found.executions.append((record, execution))
    return found


def _mapped(mapping: Callable[[R], ToolExecution | None], record: R, reasons: list[str]) -> ToolExecution | None:
    try:
        return mapping(record)
    except UnusableRecordError as error:
        reasons.append(str(error))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reasons.append(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return None
