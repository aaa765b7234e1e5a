"""The client's work once a second: summed refusals, drops, and the age of the fleet's state. Nothing is lost at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.limits import READY_S
from tests.support.spooling import databases, events_in
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"
POLICY = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)


@pytest.fixture
def dropped() -> list[int]:
    return []


@pytest.fixture
def gear(dropped: list[int]) -> Switchgear:
    """Return a client whose background is not started, so that the test does its work."""
    made = Switchgear(NO_BROKER, buffer_size=10, local_policies=POLICY, hooks=[FunctionHooks(on_drop=dropped.append)])
    made._runtime.started = True
    made._emitter.wake = lambda urgent: None  # type: ignore[union-attr,method-assign]
    return made


def test_hooks_get_the_number_of_events_dropped_since_the_last_time(gear: Switchgear, dropped: list[int]) -> None:
    assert gear.housekeeping is not None
    for _ in range(15):
        gear.call("t", int)
    gear.housekeeping.look()
    gear.housekeeping.look()
    for _ in range(3):
        gear.call("t", int)
    gear.housekeeping.look()
    assert dropped == [5, 3]


def test_summed_refusals_are_sent_before_the_emitter_closes(gear: Switchgear) -> None:
    assert gear._emitter is not None
    with pytest.raises(ConnectionError):
        gear.call("t", broken)
    for _ in range(4):
        assert not gear.try_acquire("t")
    before = gear._emitter.status().emitted
    gear._emitter.close(0)
    assert gear._emitter.status().emitted == before + 1
    event, _ = gear._emitter.buffer.take(10)[-1]
    assert (event.status, event.metadata["refused"], event.metadata["refused_by"]) == ("rejected", 3, "local")


def broken() -> None:
    raise ConnectionError("down")


@pytest.mark.slow
def test_an_interpreter_that_ends_without_close_keeps_summed_refusals_and_events(tmp_path: Path) -> None:
    """The first refusal is sent at once, the other four are summed up for a second."""
    code = f"""
from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
gear = Switchgear({NO_BROKER!r}, spool_dir={str(tmp_path)!r}, local_policies=BreakerPolicy(consecutive_failures=1))
def broken(): raise ConnectionError("down")
for number in range(6):
    try:
        gear.call("t", broken)
    except (ConnectionError, CircuitOpenError):
        pass
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    written = b"".join(event.value for path in databases(tmp_path) for event in events_in(path))
    assert written.count(b'"status":"error"') == 1
    assert written.count(b'"refused":1') == 1
    assert written.count(b'"refused":4') == 1


def test_housekeeping_runs_in_the_background(dropped: list[int]) -> None:
    with Switchgear(NO_BROKER, buffer_size=10, hooks=[FunctionHooks(on_drop=dropped.append)]) as gear:
        for _ in range(20):
            gear.call("t", int)
        until(lambda: sum(dropped) >= 10)
        assert sum(dropped) == 10, "in one or more reports"
        assert gear.status().background_deaths == {}
        gear._emitter.close(0)  # type: ignore[union-attr]
