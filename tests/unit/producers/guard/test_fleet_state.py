"""Who decides while the fleet's state is out of reach."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear import Permit, Rejection, SwitchgearError
from switchgear.follower.follower import CircuitFollower
from switchgear.follower.view import UNAVAILABLE, DenyingViews, SilentViews, Views
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.fleet_state import STATE_MAX_AGE_S, Availability, OnStateUnavailable, mode_of
from switchgear.guard.local_circuits import LocalBreakers
from switchgear.guard.rejections import Caller
from switchgear.guard.reporter import Reporter
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear.testing.fakes import MemoryEmitter
from switchgear.testing.fleet import START
from switchgear_schemas.circuit import Circuit
from tests.support.table import table

NO_BROKER = "127.0.0.1:1"


class Scene:
    """A follower that was never started, with a table filled by hand, behind a decision; and a clock."""

    def __init__(self, on_state_unavailable: OnStateUnavailable = "last_known", **options: Any) -> None:
        self.now = 1_800_000_000.0
        self.follower = CircuitFollower(NO_BROKER)
        self.age: float | None = None
        self.follower.age_s = lambda: self.age  # type: ignore[method-assign]
        emitter = MemoryEmitter(lambda _events: None, lambda: self.now)
        emitter.cut()
        clock = lambda: self.now  # noqa: E731
        fleet = FleetCircuits(self.follower, emitter, silence_s=30, clock=clock, wall=clock)
        self.decision = CircuitDecision(LocalBreakers(None, clock), Reporter(clock, fleet))
        self.views = self.follower.table.views
        self.availability = Availability(
            self.follower, on_state_unavailable, options.get("max_age", STATE_MAX_AGE_S), lambda: self.now
        )

    def load(self) -> None:
        """The circuits were read: one of them is open."""
        self.follower.loaded = True
        self.follower.table.apply(b"broken", record("broken", "open"))
        self.look(0.1)

    def look(self, age: float | None) -> str:
        self.age = age
        return self.availability.look()

    def ask(self, tool: str) -> Permit | Rejection:
        answer = self.decision.acquire(tool)
        assert isinstance(answer, Permit | Rejection)
        return answer


def record(tool: str, state: str, version: int = 1) -> bytes:
    made = Circuit(
        circuit_id=tool, tool_name=tool, state=state, version=version, generation=version,
        changed_at="2027-01-15T00:00:00Z", open_until="2037-01-15T00:00:00Z" if state == "open" else None,
    )  # fmt: skip
    return made.to_bytes()


@table(
    ("loaded", "age", "wanted", "mode"),
    [
        (True, 0.0, "last_known", "fleet"),
        (True, 14.9, "deny", "fleet"),
        (True, 15.0, "last_known", "last_known"),
        (True, 299.9, "last_known", "last_known"),
        (True, 300.0, "last_known", "local_only"),
        (True, None, "last_known", "local_only"),
        (True, 15.0, "local", "local_only"),
        (True, 15.0, "deny", "deny"),
        (False, None, "last_known", "loading"),
        (False, 1.0, "local", "loading"),
        (False, None, "deny", "deny"),
    ],
)
def test_the_mode_follows_from_the_age_and_on_state_unavailable(
    loaded: bool, age: float | None, wanted: OnStateUnavailable, mode: str
) -> None:
    assert mode_of(loaded=loaded, age_s=age, on_state_unavailable=wanted, state_max_age_s=300) == mode


def test_the_last_known_state_holds_until_it_is_too_old_and_again_when_the_fleet_is_back() -> None:
    scene = Scene()
    scene.load()
    assert isinstance(scene.ask("broken"), Rejection)
    assert scene.look(200) == "last_known"
    assert isinstance(scene.ask("broken"), Rejection)
    assert scene.look(301) == "local_only"
    assert isinstance(scene.ask("broken"), Permit), "the process's own breaker has nothing against it"
    assert scene.look(0.2) == "fleet"
    assert isinstance(scene.ask("broken"), Rejection)


def test_local_only_calls_carry_no_generation() -> None:
    """With a generation of 0 the worker would take the result as one of the circuit's first life, and drop it."""
    scene = Scene("local")
    scene.load()
    assert scene.ask("fine").generation == 0
    scene.look(20)
    assert scene.ask("fine").generation is None
    scene.look(0.1)
    assert scene.ask("fine").generation == 0


def test_deny_refuses_every_call_while_the_state_is_unavailable() -> None:
    scene = Scene("deny")
    refusal = scene.ask("anything")
    assert isinstance(refusal, Rejection)
    assert (refusal.tool, refusal.reason, refusal.source) == ("anything", UNAVAILABLE, "fleet")
    assert scene.decision.is_open("anything")
    scene.load()
    assert isinstance(scene.ask("anything"), Permit)
    scene.look(15)
    assert isinstance(scene.ask("anything"), Rejection)
    assert isinstance(scene.decision.acquire("anything", Caller("user", "session")), Rejection)


def test_records_are_taken_in_by_version_whatever_is_answered_meanwhile() -> None:
    scene = Scene("deny")
    scene.load()
    scene.look(20)
    table = scene.follower.table
    assert table.apply(b"broken", record("broken", "closed", 3)) is not None
    assert table.apply(b"broken", record("broken", "open", 2)) is None, "an older one"
    assert table.snapshot()["broken"].version == 3
    scene.look(0.1)
    assert isinstance(scene.ask("broken"), Permit)


def test_circuits_that_were_read_this_instant_hold_before_the_broker_answers_again() -> None:
    scene = Scene()
    scene.follower.loaded = True
    scene.follower.table.apply(b"broken", record("broken", "open"))
    assert scene.look(None) == "fleet"
    assert isinstance(scene.ask("broken"), Rejection)
    scene.now += STATE_MAX_AGE_S
    assert scene.look(None) == "local_only"


def test_the_circuits_of_a_forked_child_are_as_old_as_its_parents() -> None:
    scene = Scene()
    scene.load()
    scene.now += 100
    assert scene.look(None) == "last_known"
    scene.now += 201
    assert scene.look(None) == "local_only"


class StoppedWall(FakeClock):
    """A machine whose clock is set back as fast as it goes."""

    def wall(self) -> float:
        return START


def test_the_circuits_of_a_forked_child_age_also_when_the_machines_clock_is_set_back() -> None:
    fleet = InMemoryFleet(clock=StoppedWall())
    gear = fleet.gear(on_state_unavailable="deny")
    assert gear._follower is not None
    gear._follower.age_s = lambda: None  # type: ignore[method-assign]
    fleet.advance(14)
    assert gear.try_acquire("t")
    fleet.advance(1)
    assert not gear.try_acquire("t")


def test_the_dict_that_calls_hold_stays_the_same_object() -> None:
    scene = Scene()
    scene.load()
    assert scene.views is scene.follower.table.views
    for kind in (SilentViews, DenyingViews, Views):
        scene.follower.table.views.answer(kind)
        assert type(scene.views) is kind
        assert len(scene.views) == 1


def test_a_state_max_age_below_the_age_of_a_stale_state_is_refused() -> None:
    with pytest.raises(SwitchgearError, match=r"state_max_age_s is 3\.0"):
        Scene(max_age=3.0)
