"""Changes of the fleet's circuits, as a hook receives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from switchgear.follower.follower import CircuitFollower
from switchgear.telemetry.hooks import CircuitChange, FleetChanges
from switchgear_schemas.circuit import Cause, Circuit

NOW = datetime(2027, 1, 1, tzinfo=UTC)


class Recorder:
    """A follower fed by hand, and the changes that a hook received."""

    def __init__(self) -> None:
        self.follower = CircuitFollower("127.0.0.1:1")
        self.changes: list[CircuitChange] = []
        self.listener = FleetChanges(self.changes.append, self.follower, NOW.timestamp)
        self.version = 0

    def record(self, state: str, tool: str = "t", **fields: Any) -> None:
        self.version += 1
        made = Circuit(
            circuit_id=tool, tool_name=tool, state=state, version=self.version, generation=self.version, changed_at=NOW, **fields
        )  # fmt: skip
        view = self.follower.table.apply(tool.encode(), made.to_bytes())
        assert view is not None
        self.listener.on_view(view)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_reports_no_change_while_the_circuits_load(recorder: Recorder) -> None:
    recorder.record("open")
    assert recorder.changes == []
    recorder.follower.loaded = True
    recorder.record("closed")
    (change,) = recorder.changes
    assert (change.previous, change.state, change.source, change.generation) == ("open", "closed", "fleet", 2)


def test_reports_a_new_circuit_that_opens_with_its_reason_and_wait(recorder: Recorder) -> None:
    recorder.follower.loaded = True
    recorder.record(
        "open", open_until=NOW + timedelta(seconds=40), cause=Cause(rule="cusum", value=12.5, threshold=12, sample=9)
    )
    (change,) = recorder.changes
    assert (change.previous, change.state, change.retry_after_s) == (None, "open", 40)
    assert change.reason == "cusum 12.5 reached 12 over 9 calls"


def test_reports_nothing_for_another_record_of_the_same_state(recorder: Recorder) -> None:
    recorder.follower.loaded = True
    recorder.record("closed")
    recorder.record("open")
    recorder.record("open", open_until=NOW)
    recorder.record("half_open")
    assert [change.state for change in recorder.changes] == ["open", "half_open"]


def test_reports_a_circuit_that_an_operator_forces_open_as_forced_open(recorder: Recorder) -> None:
    recorder.follower.loaded = True
    recorder.record("closed", mode="forced_open", cause=Cause(rule="command", actor="ann", reason="maintenance"))
    recorder.record("closed")
    assert [(change.previous, change.state) for change in recorder.changes] == [
        (None, "forced_open"),
        ("forced_open", "closed"),
    ]
    assert recorder.changes[0].reason == "command by ann: maintenance"


@pytest.mark.slow
def test_remembers_at_most_about_as_many_states_as_there_are_circuits(recorder: Recorder) -> None:
    recorder.follower.loaded = True
    for number in range(1_000):
        recorder.record("open", f"t{number}")
        recorder.follower.table.apply(f"t{number}".encode(), None)
    assert len(recorder.changes) == 1_000
    assert len(recorder.listener._known) <= 102
