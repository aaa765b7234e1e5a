"""SwitchgearCollector exports the status of clients to the real prometheus_client."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from switchgear import Switchgear, SwitchgearError
from switchgear.telemetry.hooks import CallOutcome
from switchgear.telemetry.labels import OTHER
from switchgear.telemetry.prometheus import CallCounts, SwitchgearCollector
from switchgear.testing import InMemoryFleet
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy
from tests.support.waiting import until

POLICY = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)
UNREACHABLE = "127.0.0.1:1"


def broken() -> None:
    raise ConnectionError("down")


def opened(gear: Switchgear, tool: str) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionError):
            gear.call(tool, broken)


def registry_of(collector: SwitchgearCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)  # type: ignore[arg-type]  # a collector by its methods
    return registry


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Switchgear]:
    """Return a client with a spool while Kafka is down."""
    gear = Switchgear(UNREACHABLE, local_policies=POLICY, spool_dir=tmp_path / "spool")
    yield gear
    gear.close(0)


def test_scrape_does_not_start_the_client(away: Switchgear) -> None:
    value = registry_of(SwitchgearCollector(away)).get_sample_value
    assert value("switchgear_guard_mode", {"mode": "loading"}) == 1
    assert not away._runtime.started
    assert away._background is not None
    assert not away._background.alive


def test_exports_circuits_and_mode_of_a_local_client() -> None:
    gear = Switchgear.local(local_policies=POLICY)
    opened(gear, "search")
    registry = registry_of(SwitchgearCollector(gear))
    value = registry.get_sample_value
    assert value("switchgear_guard_mode", {"mode": "local_only"}) == 1
    assert value("switchgear_guard_mode", {"mode": "fleet"}) == 0
    assert value("switchgear_guard_local_circuits", {"state": "open"}) == 1
    assert value("switchgear_guard_local_circuit_state", {"circuit": "search", "state": "open"}) == 1
    assert value("switchgear_emitter_emitted_total") is None, "it has no emitter"


@pytest.mark.slow
def test_exports_waiting_events_while_kafka_is_down(away: Switchgear) -> None:
    opened(away, "search")
    registry = registry_of(SwitchgearCollector(away))
    value = registry.get_sample_value
    assert value("switchgear_emitter_emitted_total") == 2
    assert value("switchgear_emitter_connected") == 0
    assert value("switchgear_guard_fleet_stale") == 1
    assert value("switchgear_guard_fleet_loaded") == 0
    assert value("switchgear_guard_mode", {"mode": "loading"}) == 1
    assert away._emitter is not None
    outbox = away._emitter._outbox
    until(lambda: outbox.silent_s(time.monotonic()) > 0)
    outbox._progress_at -= 30
    until(lambda: value("switchgear_spool_records") == 2)
    assert value("switchgear_spool_in_use") == 1
    assert (value("switchgear_spool_bytes") or 0) > 100
    assert (value("switchgear_emitter_away_seconds") or 0) >= 30


@pytest.mark.slow
def test_prometheus_parser_reads_the_export(away: Switchgear) -> None:
    counted = CollectorRegistry()
    gear = Switchgear.local(local_policies=POLICY, hooks=[CallCounts(counted)])
    counted.register(SwitchgearCollector(gear))  # type: ignore[arg-type]
    for client, registry in ((away, registry_of(SwitchgearCollector(away))), (gear, counted)):
        client.call("search", lambda: 1)
        text = generate_latest(registry).decode()
        names = [family.name for family in text_string_to_metric_families(text)]
        assert len(names) == len(set(names)) > 5
        assert all(name.startswith("switchgear_") for name in names)


def test_exports_what_a_client_does_by_a_rate_limit() -> None:
    fleet = InMemoryFleet(FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_limit": "1/min", "pace_wait_s": 0}))
    gear = fleet.gear()
    registry = registry_of(SwitchgearCollector(gear))
    assert registry.get_sample_value("switchgear_guard_paced_refusals_total", {"tool": "search"}) is None
    for _ in range(5):
        answer = gear.try_acquire("search")
        if answer:
            answer.success()

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"switchgear_guard_paced_{name}", {"tool": "search"})

    assert value("refusals_total") == 3  # one went before the limit was known, and one at once
    assert (value("waits_total"), value("wait_seconds_total")) == (0, 0)
    assert value("share") == pytest.approx(1 / 60)


def test_exports_calls_by_tool_with_call_counts() -> None:
    registry = CollectorRegistry()
    gear = Switchgear.local(local_policies=POLICY, hooks=[CallCounts(registry)])
    gear.call("search", lambda: 1)
    opened(gear, "search")
    assert not gear.try_acquire("search")
    value = registry.get_sample_value
    assert value("switchgear_guard_calls_total", {"tool": "search", "status": "success"}) == 1
    assert value("switchgear_guard_calls_total", {"tool": "search", "status": "error"}) == 2
    assert value("switchgear_guard_rejections_total", {"tool": "search", "source": "local"}) == 1
    assert (value("switchgear_guard_call_seconds_total", {"tool": "search"}) or 0) > 0
    assert value("switchgear_guard_transitions_total", {"tool": "search", "source": "local", "state": "open"}) == 1


def test_adds_up_tools_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchgear.telemetry.prometheus.MOST_TOOLS", 2)
    registry = CollectorRegistry()
    counts = CallCounts(registry)
    for number in range(5):
        counts.on_outcome(CallOutcome(f"t{number}", "success", 1.0))
    found = {
        sample.labels["tool"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "switchgear_guard_calls_total"
    }
    assert found == {"t0": 1, "t1": 1, OTHER: 3}


def test_registering_does_not_start_the_client() -> None:
    gear = Switchgear(UNREACHABLE)
    registry_of(SwitchgearCollector(gear))
    status = gear.status()
    assert status.emitter is not None
    assert not status.emitter.alive


@pytest.mark.slow
def test_each_metric_is_one_family(away: Switchgear) -> None:
    opened(away, "search")
    registry = registry_of(SwitchgearCollector(away))
    CallCounts(registry).on_outcome(CallOutcome("search", "success", 1.0))
    text = generate_latest(registry).decode()
    helped = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert len(helped) == len(set(helped)) > 20
    names = [family.name for family in read_openmetrics(generate_openmetrics(registry).decode())]
    assert len(names) == len(set(names)) > 20
    assert "switchgear_guard_mode" in names


def test_registry_takes_one_collector_only() -> None:
    registry = registry_of(SwitchgearCollector(Switchgear.local()))
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(SwitchgearCollector(Switchgear.local()))  # type: ignore[arg-type]


def test_rejects_what_is_not_a_client() -> None:
    with pytest.raises(SwitchgearError, match="Switchgear"):
        SwitchgearCollector("gear")  # type: ignore[arg-type]


def test_error_without_prometheus_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = SwitchgearCollector(Switchgear.local())
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(SwitchgearError, match=r"pip install \"switchgear\[prometheus\]\""):
        list(collector.collect())


def test_call_counts_without_prometheus_client_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SwitchgearError, match=r"pip install \"switchgear\[prometheus\]\""):
        CallCounts()
