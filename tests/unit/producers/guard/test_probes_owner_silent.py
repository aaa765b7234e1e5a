"""Circuits whose owner does not answer are shown, with how long."""

from __future__ import annotations

from dataclasses import replace

from switchgear.follower.view import CircuitView, Instant
from switchgear.guard.probes import ProbeCoordinator

OPEN = CircuitView("t", "t", "open", version=4, generation=1, changed_at=Instant(0), open_until=Instant(50), attempt=1)


class Asked:
    """A desk that asks once a second."""

    def __init__(self) -> None:
        self.now = 100.0
        self.probes = ProbeCoordinator(silence_s=30, clock=lambda: self.now)

    def ask(self, view: CircuitView = OPEN) -> None:
        assert self.probes.ask(view) is not None
        self.probes.answered(view.circuit_id)
        self.now += 1.5


def test_a_single_request_does_not_count_as_unanswered() -> None:
    asked = Asked()
    asked.ask()
    assert asked.probes.unanswered({"t": OPEN}) == {}


def test_repeated_unanswered_requests_are_shown_with_their_age() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    assert asked.probes.unanswered({"t": OPEN}) == {"t": 6.0}


def test_a_new_record_answers_earlier_requests() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    assert asked.probes.unanswered({"t": replace(OPEN, version=5)}) == {}
    assert asked.probes.unanswered({}) == {}, "the circuit is gone"


def test_a_closed_circuit_has_no_unanswered_requests() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    asked.probes.on_view(replace(OPEN, state="closed"), "me")
    assert asked.probes.unanswered({"t": OPEN}) == {}
