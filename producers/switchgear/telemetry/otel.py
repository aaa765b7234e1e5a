"""Report calls to OpenTelemetry: on the caller's span, in metrics, and as the trace context of events.

Needs ``opentelemetry-api`` (extra ``otel``). Names follow the semantic conventions if there are any: ``error.type``,
``gen_ai.tool.name``, durations in seconds. The others begin with ``switchgear.``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from switchgear.guard.rejections import Rejection
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span


TOOL = "gen_ai.tool.name"
STATE = "switchgear.circuit.state"
SOURCE = "switchgear.circuit.source"
SERVED_BY = "switchgear.served_by"
PROBE = "switchgear.probe"


class OpenTelemetryHooks(Hooks):
    """Pass it to the client: ``Switchgear(..., hooks=[OpenTelemetryHooks()])``. It writes on the current span and starts none.

    docs/guide/observability.md lists the attributes, events and metrics. They have the tool's name, so don't let users choose
    tool names.

    Args:
        meter_provider: The provider of the metrics, the global one by default.

    Raises:
        SwitchgearError: opentelemetry-api isn't installed.
    """

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise SwitchgearError(
                "OpenTelemetry isn't installed.", hint='Run `pip install "switchgear[otel]"`.'
            ) from None
        self._current_span, self._no_span = trace.get_current_span, trace.INVALID_SPAN
        meter = (meter_provider or metrics.get_meter_provider()).get_meter("switchgear")
        self._duration = meter.create_histogram("switchgear.call.duration", "s", "Duration of guarded calls.")
        self._rejections = meter.create_counter("switchgear.rejections", "{call}", "Calls that a circuit refused.")
        self._fallbacks = meter.create_counter("switchgear.fallbacks", "{call}", "Calls that something else served.")
        self._transitions = meter.create_counter("switchgear.circuit.transitions", "{transition}", "Changes of state.")
        self._dropped = meter.create_counter("switchgear.events.dropped", "{event}", "Events that were dropped.")

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Record the duration, the attributes of the span, and an event for a failure."""
        self._describe(outcome.tool, outcome.state, outcome.served_by, probe=outcome.probe)
        measured = {TOOL: outcome.tool, "switchgear.status": outcome.status}
        if outcome.status != "success":
            measured["error.type"] = outcome.error_type or outcome.error_class or "_OTHER"
            details = {TOOL: outcome.tool, "error.type": measured["error.type"]}
            if outcome.error_class is not None:
                details["switchgear.error.class"] = outcome.error_class
            self._span().add_event("switchgear.failed", details)
        self._duration.record(outcome.duration_ms / 1000, measured)

    def on_rejected(self, rejection: Rejection) -> None:
        """Count it, and add an event to the span."""
        named = {TOOL: rejection.tool, STATE: rejection.state, SOURCE: rejection.source}
        self._rejections.add(1, named)
        details: dict[str, Any] = {**named, "switchgear.reason": rejection.reason}
        if rejection.retry_after_s is not None:
            details["switchgear.retry_after"] = rejection.retry_after_s
        self._span().add_event("switchgear.rejected", details)
        self._describe(rejection.tool, rejection.state, "none")

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Count it, and add an event to the span."""
        named = {TOOL: rejection.tool, "switchgear.fallback.tool": tool}
        self._fallbacks.add(1, named)
        self._span().add_event("switchgear.fallback", named)
        self._span().set_attribute(SERVED_BY, "fallback")

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """Set the attributes of the span. A fresh result is served without asking the circuit, so its state is unknown."""
        self._describe(tool, "unknown" if rejection is None else rejection.state, "cache")

    def on_transition(self, change: CircuitChange) -> None:
        """Count it, and add an event to the span of the call that changed the process's own circuit."""
        named = {TOOL: change.tool, STATE: change.state, SOURCE: change.source}
        self._transitions.add(1, named)
        if change.source == "local":
            previous = change.previous or "unknown"
            details = {**named, "switchgear.circuit.previous": previous, "switchgear.reason": change.reason}
            self._span().add_event("switchgear.circuit.transition", details)

    def on_drop(self, count: int) -> None:
        """Count the events."""
        self._dropped.add(count)

    def traceparent(self) -> str | None:
        """Return the context of the current span as a W3C traceparent, None without one."""
        context = self._current_span().get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def _span(self) -> Span:
        """Return the current span to write on. One that has ended would log each write."""
        span = self._current_span()
        return span if span.is_recording() else self._no_span

    def _describe(self, tool: str, state: str, served_by: str, *, probe: bool = False) -> None:
        """Set all attributes of the last call. They replace those of the call before it in the same span."""
        self._span().set_attributes({TOOL: tool, STATE: state, SERVED_BY: served_by, PROBE: probe})
