"""Changes of the fleet's circuits, as a hook is told of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from switchgear.follower.changes import FleetChanges
from switchgear.follower.follower import CircuitFollower
from switchgear.telemetry.hooks import CircuitChange
from switchgear_schemas.circuit import Cause, Circuit

NOW = datetime(2027, 1, 1, tzinfo=UTC)


class Told:
    """A follower fed by hand, and what a hook was told."""

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
        view = self.follower.table.apply(tool.encode(), made.model_dump_json().encode())
        assert view is not None
        self.listener.on_view(view)


@pytest.fixture
def told() -> Told:
    return Told()


def test_what_was_so_before_we_came_is_no_change(told: Told) -> None:
    told.record("open")
    assert told.changes == []
    told.follower.loaded = True
    told.record("closed")
    (change,) = told.changes
    assert (change.previous, change.state, change.source, change.generation) == ("open", "closed", "fleet", 2)


def test_a_new_circuit_that_opens_is_told_with_its_reason_and_wait(told: Told) -> None:
    told.follower.loaded = True
    told.record(
        "open", open_until=NOW + timedelta(seconds=40), cause=Cause(rule="cusum", value=12.5, threshold=12, sample=9)
    )
    (change,) = told.changes
    assert (change.previous, change.state, change.retry_after_s) == (None, "open", 40)
    assert change.reason == "cusum 12.5 reached 12 over 9 calls"


def test_another_record_of_the_same_state_is_no_change(told: Told) -> None:
    told.follower.loaded = True
    told.record("closed")
    told.record("open")
    told.record("open", open_until=NOW)
    told.record("half_open")
    assert [change.state for change in told.changes] == ["open", "half_open"]


def test_a_circuit_that_an_operator_forces_open_is_told_as_such(told: Told) -> None:
    told.follower.loaded = True
    told.record("closed", mode="forced_open", cause=Cause(rule="command", actor="ann", reason="maintenance"))
    told.record("closed")
    assert [(change.previous, change.state) for change in told.changes] == [
        (None, "forced_open"),
        ("forced_open", "closed"),
    ]
    assert told.changes[0].reason == "command by ann: maintenance"


def test_what_is_remembered_is_bounded_by_the_circuits_there_are(told: Told) -> None:
    told.follower.loaded = True
    for number in range(1_000):
        told.record("open", f"t{number}")
        told.follower.table.apply(f"t{number}".encode(), None)
    assert len(told.changes) == 1_000
    assert len(told.listener._known) <= 102
