"""OpenTelemetryHooks reports to the real SDK: on the span, in metrics and on the event."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from switchgear import CachePolicy, CircuitOpenError, Switchgear, SwitchgearError
from switchgear.telemetry.hooks import CircuitChange
from switchgear.telemetry.otel import OpenTelemetryHooks
from switchgear_schemas.policy import BreakerPolicy

POLICY = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30)


class Telemetry:
    """A client with the hooks, and the spans and metrics that they recorded."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = provider.get_tracer("test")
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.hooks = OpenTelemetryHooks(meter_provider=self.meters)
        self.gear = Switchgear.local(local_policies=POLICY, hooks=[self.hooks])

    def span(self) -> ReadableSpan:
        return self.spans.get_finished_spans()[-1]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [
            metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.meters.shutdown()


def broken() -> None:
    raise ConnectionError("down")


def test_sets_tool_and_circuit_on_the_callers_span(telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("agent step"):
        telemetry.gear.call("search", lambda: 1)
    attributes = dict(telemetry.span().attributes or {})
    assert attributes == {
        "gen_ai.tool.name": "search",
        "switchgear.circuit.state": "closed",
        "switchgear.served_by": "call",
        "switchgear.probe": False,
    }


def test_failure_adds_its_error_type_and_the_change_of_the_circuit(telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("agent step"):
        for _ in range(2):
            with pytest.raises(ConnectionError):
                telemetry.gear.call("search", broken)
    span = telemetry.span()
    failed, _, event = span.events
    assert failed.name == "switchgear.failed"
    assert dict(failed.attributes or {}) == {
        "gen_ai.tool.name": "search",
        "error.type": "ConnectionError",
        "switchgear.error.class": "transport",
    }
    assert event.name == "switchgear.circuit.transition"
    assert dict(event.attributes or {}) == {
        "gen_ai.tool.name": "search",
        "switchgear.circuit.state": "open",
        "switchgear.circuit.source": "local",
        "switchgear.circuit.previous": "closed",
        "switchgear.reason": "consecutive_failures",
    }


def test_refusal_and_fallback_are_events_on_the_span(telemetry: Telemetry) -> None:
    gear = telemetry.gear

    @gear.guard("backup")
    def backup() -> str:
        return "from the backup"

    @gear.guard("search", fallback="backup")
    def search() -> str:
        broken()
        return "never"

    for _ in range(2):
        with pytest.raises(ConnectionError):
            search()
    with telemetry.tracer.start_as_current_span("agent step"):
        assert search() == "from the backup"
    events = {event.name: dict(event.attributes or {}) for event in telemetry.span().events}
    assert set(events) == {"switchgear.rejected", "switchgear.fallback"}
    assert 25 < float(events["switchgear.rejected"].pop("switchgear.retry_after")) <= 40  # type: ignore[arg-type]
    assert events["switchgear.rejected"]["switchgear.circuit.state"] == "open"
    assert events["switchgear.fallback"]["switchgear.fallback.tool"] == "backup"
    (count,) = telemetry.points("switchgear.fallbacks")
    assert count.value == 1


def last(tool: str, state: str, served_by: str, *, probe: bool = False) -> dict[str, object]:
    return {
        "gen_ai.tool.name": tool,
        "switchgear.circuit.state": state,
        "switchgear.served_by": served_by,
        "switchgear.probe": probe,
    }


def test_attributes_of_an_earlier_call_are_replaced(telemetry: Telemetry) -> None:
    gear = telemetry.gear
    for _ in range(2):
        with pytest.raises(ConnectionError):
            gear.call("broken", broken)
    with telemetry.tracer.start_as_current_span("agent step"):
        with pytest.raises(ConnectionError):
            gear.call("search", broken)
        with pytest.raises(CircuitOpenError):
            gear.call("broken", broken)
        gear.call("weather", lambda: 1)
    assert dict(telemetry.span().attributes or {}) == last("weather", "closed", "call")
    assert [event.name for event in telemetry.span().events] == ["switchgear.failed", "switchgear.rejected"]


def test_guarded_fallback_is_served_by_fallback(telemetry: Telemetry) -> None:
    gear = telemetry.gear
    gear.guard("backup")(lambda: "from the backup")
    search = gear.guard("search", fallback="backup")(broken)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            search()
    with telemetry.tracer.start_as_current_span("agent step"):
        search()
    assert dict(telemetry.span().attributes or {}) == last("backup", "closed", "fallback")


def test_call_made_because_all_circuits_are_open_has_state_open(telemetry: Telemetry) -> None:
    gear = telemetry.gear
    backup = gear.guard("backup")(broken)
    search = gear.guard("search", fallback="backup")(broken)
    for _ in range(2):
        for tool in (backup, search):
            with pytest.raises(ConnectionError):
                tool()
    with telemetry.tracer.start_as_current_span("agent step"), pytest.raises(ConnectionError):
        search()
    assert dict(telemetry.span().attributes or {}) == last("search", "open", "call")


def test_cached_result_is_served_by_cache(telemetry: Telemetry) -> None:
    gear, fails = telemetry.gear, [False]

    @gear.guard("search", cache=CachePolicy(ttl_s=0.02, stale_for_s=60))
    def search() -> str:
        if fails[0]:
            broken()
        return "found"

    search()
    with telemetry.tracer.start_as_current_span("fresh"):
        assert search() == "found"
    assert dict(telemetry.span().attributes or {}) == last("search", "unknown", "cache")
    fails[0] = True
    time.sleep(0.03)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            search()
    with telemetry.tracer.start_as_current_span("stale"):
        assert search() == "found"
    assert dict(telemetry.span().attributes or {}) == last("search", "open", "cache")


def test_probe_sets_its_attribute(telemetry: Telemetry) -> None:
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.01),
        hooks=[telemetry.hooks],
    )
    with pytest.raises(ConnectionError):
        gear.call("search", broken)
    time.sleep(0.02)
    with telemetry.tracer.start_as_current_span("agent step"):
        gear.call("search", lambda: 1)
    assert dict(telemetry.span().attributes or {}) == last("search", "half_open", "call", probe=True)


def test_metrics_count_calls_refusals_and_changes(telemetry: Telemetry) -> None:
    telemetry.gear.call("search", lambda: 1)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            telemetry.gear.call("search", broken)
    for _ in range(3):
        with pytest.raises(CircuitOpenError):
            telemetry.gear.call("search", broken)
    telemetry.hooks.on_drop(7)
    counts = {
        point.attributes["switchgear.status"]: point.count for point in telemetry.points("switchgear.call.duration")
    }
    assert counts == {"success": 1, "error": 2}
    (refused,) = telemetry.points("switchgear.rejections")
    assert (refused.value, refused.attributes["switchgear.circuit.state"]) == (3, "open")
    (moved,) = telemetry.points("switchgear.circuit.transitions")
    assert (moved.value, moved.attributes["switchgear.circuit.source"]) == (1, "local")
    assert [point.value for point in telemetry.points("switchgear.events.dropped")] == [7]


def test_change_of_the_fleets_circuit_is_counted_without_a_span_event(telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("someone else's"):
        telemetry.hooks.on_transition(CircuitChange("t", "t", "fleet", None, "open", 1))
    assert telemetry.span().events == ()
    assert len(telemetry.points("switchgear.circuit.transitions")) == 1


def test_trace_context_is_that_of_the_current_span(telemetry: Telemetry) -> None:
    assert telemetry.hooks.traceparent() is None
    carrier: dict[str, str] = {}
    with telemetry.tracer.start_as_current_span("agent step"):
        TraceContextTextMapPropagator().inject(carrier)
        assert telemetry.hooks.traceparent() == carrier["traceparent"]


def test_does_not_write_on_a_span_that_has_ended(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    """A task keeps the span of the request that started it, which may end first. The SDK logs each write on such a span."""
    with trace.use_span(telemetry.tracer.start_span("request"), end_on_exit=False) as span:
        span.end()
        telemetry.gear.call("search", lambda: 1)
        with pytest.raises(ConnectionError):
            telemetry.gear.call("search", broken)
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_event_of_a_call_has_the_trace_context_of_its_span(telemetry: Telemetry) -> None:
    gear = Switchgear("127.0.0.1:1", hooks=[telemetry.hooks])
    gear._runtime.started = True
    with telemetry.tracer.start_as_current_span("agent step") as span:
        gear.call("search", lambda: 1)
    assert gear._emitter is not None
    (event, _), *_ = gear._emitter.buffer.take(10)
    assert event.traceparent.split("-")[1] == f"{span.get_span_context().trace_id:032x}"
    gear.close(0)


def test_error_without_opentelemetry_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SwitchgearError, match=r"pip install \"switchgear\[otel\]\""):
        OpenTelemetryHooks()
