"""OpenTelemetry: what the guard does, on the caller's span, in metrics, and on the event as its trace context.

Needs ``opentelemetry-api`` (extra ``otel``), imported when a :class:`OpenTelemetryHooks` is made; without an SDK everything
here does nothing, as OpenTelemetry means it. Names follow the semantic conventions where there are any (``error.type``,
``gen_ai.tool.name``, durations in seconds); the rest begin with ``switchgear.``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from switchgear.guard.rejections import Rejection
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


TOOL = "gen_ai.tool.name"
STATE = "switchgear.circuit.state"
SOURCE = "switchgear.circuit.source"
SERVED_BY = "switchgear.served_by"
PROBE = "switchgear.probe"
_NAME = "switchgear"


class OpenTelemetryHooks(Hooks):
    """Give it to the client: ``Switchgear(..., hooks=[OpenTelemetryHooks()])``. It starts no spans: it writes on the current one.

    On the span, of the last call in it: ``gen_ai.tool.name``, ``switchgear.circuit.state``, ``switchgear.served_by``,
    ``switchgear.probe``. Events: ``switchgear.failed`` (with ``error.type`` and ``switchgear.error.class``),
    ``switchgear.rejected``, ``switchgear.fallback`` and ``switchgear.circuit.transition`` (of the process's own circuits).
    What not every call has is on its event alone: an attribute can't be taken off a span again, and would be the next call's.

    Metrics: ``switchgear.call.duration`` (histogram, s), ``switchgear.rejections``, ``switchgear.fallbacks``,
    ``switchgear.circuit.transitions`` and ``switchgear.events.dropped`` (counters). Each has the tool's name where there is one:
    let no user invent tool names.

    Args:
        meter_provider: whose metrics they are; the global one unless given.

    Raises:
        SwitchgearError: opentelemetry-api is not installed.
    """

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise SwitchgearError(
                "OpenTelemetry is not installed.", hint='Run `pip install "switchgear[otel]"`.'
            ) from None
        self._current_span = trace.get_current_span
        meter = (meter_provider or metrics.get_meter_provider()).get_meter(_NAME)
        self._duration = meter.create_histogram(
            "switchgear.call.duration", unit="s", description="Duration of guarded calls."
        )
        self._rejections = meter.create_counter(
            "switchgear.rejections", unit="{call}", description="Calls that a circuit refused."
        )
        self._fallbacks = meter.create_counter(
            "switchgear.fallbacks", unit="{call}", description="Refused calls that something else served."
        )
        self._transitions = meter.create_counter(
            "switchgear.circuit.transitions", unit="{transition}", description="Changes of state."
        )
        self._dropped = meter.create_counter(
            "switchgear.events.dropped", unit="{event}", description="Events that were given up."
        )

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Attributes of the span, an event for a failure, and the duration."""
        failed = outcome.status != "success"
        kind = outcome.error_type or outcome.error_class or "_OTHER"
        measured: dict[str, Any] = {TOOL: outcome.tool, "switchgear.status": outcome.status}
        if failed:
            measured["error.type"] = kind
        self._duration.record(outcome.duration_ms / 1000, measured)
        span = self._current_span()
        if span.is_recording():
            span.set_attributes(_of_last(outcome.tool, outcome.state, outcome.served_by, probe=outcome.probe))
            if failed:
                told = {TOOL: outcome.tool, "error.type": kind}
                if outcome.error_class is not None:
                    told["switchgear.error.class"] = outcome.error_class
                span.add_event("switchgear.failed", told)

    def on_rejected(self, rejection: Rejection) -> None:
        """An event on the span, and a count."""
        named = {TOOL: rejection.tool, STATE: rejection.state, SOURCE: rejection.source}
        self._rejections.add(1, named)
        span = self._current_span()
        if span.is_recording():
            told: dict[str, Any] = {**named, "switchgear.reason": rejection.reason}
            if rejection.retry_after_s is not None:
                told["switchgear.retry_after"] = rejection.retry_after_s
            span.add_event("switchgear.rejected", told)
            span.set_attributes(_of_last(rejection.tool, rejection.state, "none"))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """An event on the span, and a count."""
        named = {TOOL: rejection.tool, "switchgear.fallback.tool": tool}
        self._fallbacks.add(1, named)
        span = self._current_span()
        if span.is_recording():
            span.add_event("switchgear.fallback", named)
            span.set_attribute(SERVED_BY, "fallback")

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """Attributes of the span."""
        span = self._current_span()
        if span.is_recording():
            state = "unknown" if rejection is None else rejection.state  # of a fresh result nobody asked the circuit
            span.set_attributes(_of_last(tool, state, "cache"))

    def on_transition(self, change: CircuitChange) -> None:
        """A count; and for the process's own circuits an event on the span of the call that moved them."""
        named = {TOOL: change.tool, STATE: change.state, SOURCE: change.source}
        self._transitions.add(1, named)
        span = self._current_span()
        if change.source == "local" and span.is_recording():
            previous = change.previous or "unknown"
            told = {**named, "switchgear.circuit.previous": previous, "switchgear.reason": change.reason}
            span.add_event("switchgear.circuit.transition", told)

    def on_drop(self, count: int) -> None:
        """A count."""
        self._dropped.add(count)

    def traceparent(self) -> str | None:
        """The current span's context, in W3C's form."""
        context = self._current_span().get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _of_last(tool: str, state: str, served_by: str, *, probe: bool = False) -> dict[str, str | bool]:
    """All of them each time: what a call before it left would be untrue of this one."""
    return {TOOL: tool, STATE: state, SERVED_BY: served_by, PROBE: probe}
