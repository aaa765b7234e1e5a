"""Circuits whose owner does not answer are shown, with how long."""

from __future__ import annotations

from dataclasses import replace

from switchgear.follower.view import CircuitView, Instant
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.testing import MemoryEmitter, MemoryFollower

OPEN = CircuitView("t", "t", "open", version=4, generation=1, changed_at=Instant(0), open_until=Instant(50), attempt=1)


class Asked:
    """A process that requests a probe once a second."""

    def __init__(self) -> None:
        self.now = 100.0
        clock = lambda: self.now  # noqa: E731
        follower, emitter = MemoryFollower(clock), MemoryEmitter(lambda *_: None, clock)
        self.views = follower.table.views
        self.views["t"] = OPEN
        self.fleet = FleetCircuits(follower, emitter, silence_s=30, clock=clock, wall=clock)

    def ask(self, view: CircuitView = OPEN) -> None:
        assert self.fleet.request_probe(view) is not None
        self.fleet.request_ended(view.circuit_id)
        self.now += 1.5


def test_a_single_request_does_not_count_as_unanswered() -> None:
    asked = Asked()
    asked.ask()
    assert asked.fleet.owner_silent_s() == {}


def test_repeated_unanswered_requests_are_shown_with_their_age() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    assert asked.fleet.owner_silent_s() == {"t": 6.0}


def test_a_new_record_answers_earlier_requests() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    asked.views["t"] = replace(OPEN, version=5)
    assert asked.fleet.owner_silent_s() == {}
    del asked.views["t"]
    assert asked.fleet.owner_silent_s() == {}, "the circuit is gone"


def test_a_closed_circuit_has_no_unanswered_requests() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    asked.fleet.on_view(replace(OPEN, state="closed"))
    assert asked.fleet.owner_silent_s() == {}


def test_requests_before_the_end_of_the_wait_do_not_show_that_the_owner_is_silent() -> None:
    asked = Asked()
    early = replace(OPEN, open_until=Instant(120))
    for _ in range(25):
        asked.ask(early)
    assert not asked.fleet.owner_silent(early), "it is 137.5, and the wait was over at 120"
    assert asked.fleet.owner_silent(OPEN), "its wait was over at 50"
    asked.now = 150.0
    assert asked.fleet.owner_silent(early)
