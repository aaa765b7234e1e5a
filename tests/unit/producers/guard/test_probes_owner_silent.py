"""Circuits whose owner does not answer are seen, with for how long."""

from __future__ import annotations

from dataclasses import replace

from switchgear.follower.view import CircuitView
from switchgear.guard.probes import ProbeCoordinator

OPEN = CircuitView(
    circuit_id="t", tool_name="t", scope="tool", state="open", mode="enforce", version=4, generation=1, changed_at=0.0,
    open_until=50.0, attempt=1, leases=(), reason="", last_error=None, fallback=(), passes=False, overrides=False, forced=False,
)  # fmt: skip


class Asked:
    """A desk that asks once a second."""

    def __init__(self) -> None:
        self.now = 100.0
        self.probes = ProbeCoordinator(silence_s=30, clock=lambda: self.now)

    def ask(self, view: CircuitView = OPEN) -> None:
        assert self.probes.ask(view) is not None
        self.probes.answered(view.circuit_id)
        self.now += 1.5


def test_one_request_is_no_silence_yet() -> None:
    asked = Asked()
    asked.ask()
    assert asked.probes.unanswered({"t": OPEN}) == {}


def test_requests_again_without_an_answer_are_told_with_their_time() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    assert asked.probes.unanswered({"t": OPEN}) == {"t": 6.0}


def test_any_record_since_is_an_answer() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    assert asked.probes.unanswered({"t": replace(OPEN, version=5)}) == {}
    assert asked.probes.unanswered({}) == {}, "the circuit is gone"


def test_a_closed_circuit_is_asked_for_no_more() -> None:
    asked = Asked()
    for _ in range(4):
        asked.ask()
    asked.probes.on_view(replace(OPEN, state="closed", passes=True), "me")
    assert asked.probes.unanswered({"t": OPEN}) == {}
