"""Requests for probes: one at a time for each circuit and process, and one call for each lease."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from switchgear.follower.view import CircuitView, Instant, LeaseView
from switchgear.guard.fleet_circuits import ASK_AGAIN_S, FleetCircuits
from switchgear.testing import MemoryEmitter, MemoryFollower
from switchgear_schemas.enums import CircuitState
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S

ME = "me"


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def fleet(clock):
    emitter = MemoryEmitter(lambda *_: None, clock, emitter_id=ME)
    return FleetCircuits(MemoryFollower(clock), emitter, silence_s=30, clock=clock, wall=clock)


def view(version: int = 1, *leases: LeaseView, passes: bool = False, tool: str = "t") -> CircuitView:
    state: CircuitState = "closed" if passes else "open"
    return CircuitView(tool, tool, state, version, 1, Instant(0), open_until=Instant(50), attempt=1, leases=leases)


def lease(who: str = ME, name: str = "l1") -> LeaseView:
    return LeaseView(name, who, Instant(1e9))


def test_a_second_request_for_a_probe_waits_for_the_first(fleet):
    first = fleet.request_probe(view())
    assert first is not None
    assert fleet.request_probe(view()) is None


def test_requests_for_probes_of_two_circuits_are_independent(fleet):
    assert fleet.request_probe(view(tool="a")) is not None
    assert fleet.request_probe(view(tool="b")) is not None


def test_after_an_unanswered_request_the_next_waits_a_second(fleet, clock):
    fleet.request_probe(view())
    fleet.request_ended("t")
    clock.now += ASK_AGAIN_S - 0.001
    assert fleet.request_probe(view()) is None
    clock.now += 0.001
    assert fleet.request_probe(view()) is not None


def test_a_new_record_allows_a_new_request_at_once(fleet):
    fleet.request_probe(view(1))
    fleet.request_ended("t")
    assert fleet.request_probe(view(2)) is not None


def test_a_lease_for_this_process_wakes_the_waiting_call(fleet):
    waiting = fleet.request_probe(view(1))
    fleet.on_view(view(2, lease("other")))
    assert not waiting.done()
    fleet.on_view(view(3, lease("other"), lease(ME)))
    assert waiting.done()


def test_a_closed_circuit_wakes_the_waiting_call(fleet):
    waiting = fleet.request_probe(view(1))
    fleet.on_view(view(2, passes=True))
    assert waiting.done()


def test_a_record_without_a_waiting_call_is_ignored(fleet):
    fleet.on_view(view(2, lease()))
    fleet.on_view(view(3, passes=True))


def test_a_lease_is_for_one_call(fleet):
    assert fleet.take_lease("t", "l1")
    assert not fleet.take_lease("t", "l1")
    assert fleet.take_lease("t", "l2")


def test_a_lease_given_back_is_for_the_next_call(fleet):
    fleet.take_lease("t", "l1")
    fleet.give_lease_back("t", "l1")
    assert fleet.take_lease("t", "l1")


def test_one_of_many_threads_takes_the_lease_and_one_asks_for_a_probe(fleet):
    taken, asked = [], []

    def race():
        taken.append(fleet.take_lease("t", "l1"))
        asked.append(fleet.request_probe(view()) is not None)

    threads = [threading.Thread(target=race) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert (taken.count(True), asked.count(True)) == (1, 1)


def test_a_circuit_is_silent_after_long_unanswered_requests(fleet, clock):
    for _ in range(31):
        fleet.request_probe(view())
        fleet.request_ended("t")
        assert not fleet.owner_silent(view()) or clock.now >= 130
        clock.now += ASK_AGAIN_S
    assert fleet.owner_silent(view())
    assert not fleet.owner_silent(view(2))


def test_a_single_old_request_does_not_make_a_circuit_silent(fleet, clock):
    fleet.request_probe(view())
    fleet.request_ended("t")
    clock.now += 1_000
    assert not fleet.owner_silent(view())


def test_a_closed_circuit_forgets_its_requests_and_leases(fleet):
    fleet.request_probe(view())
    fleet.request_ended("t")
    fleet.take_lease("t", "l1")
    fleet.on_view(view(2, passes=True))
    assert (fleet._waiting, fleet._requests, fleet._used_leases) == ({}, {}, {})


def test_a_forked_child_has_no_requests_and_no_leases(fleet):
    fleet.request_probe(view())
    fleet.take_lease("t", "l1")
    fleet.forked()
    assert fleet.request_probe(view()) is not None
    assert fleet.take_lease("t", "l1")


def test_circuit_views_compare_by_value():
    assert view(1) == replace(view(2), version=1)
