"""Requests for probes: one at a time for each circuit and process, and one call for each lease."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from switchgear.follower.view import CircuitView, Instant, LeaseView
from switchgear.guard.probes import ASK_AGAIN_S, ProbeCoordinator
from switchgear_schemas.enums import CircuitState
from tests.support.clock import Clock

ME = "me"


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def desk(clock):
    return ProbeCoordinator(silence_s=30, clock=clock)


def view(version: int = 1, *leases: LeaseView, passes: bool = False, tool: str = "t") -> CircuitView:
    state: CircuitState = "closed" if passes else "open"
    return CircuitView(tool, tool, state, version, 1, Instant(0), open_until=Instant(50), attempt=1, leases=leases)


def lease(who: str = ME, name: str = "l1") -> LeaseView:
    return LeaseView(name, who, Instant(1e9))


def test_a_second_request_for_a_probe_waits_for_the_first(desk):
    first = desk.ask(view())
    assert first is not None
    assert desk.ask(view()) is None


def test_requests_for_probes_of_two_circuits_are_independent(desk):
    assert desk.ask(view(tool="a")) is not None
    assert desk.ask(view(tool="b")) is not None


def test_after_an_unanswered_request_the_next_waits_a_second(desk, clock):
    desk.ask(view())
    desk.answered("t")
    clock.now += ASK_AGAIN_S - 0.001
    assert desk.ask(view()) is None
    clock.now += 0.001
    assert desk.ask(view()) is not None


def test_a_new_record_allows_a_new_request_at_once(desk):
    desk.ask(view(1))
    desk.answered("t")
    assert desk.ask(view(2)) is not None


def test_a_lease_for_this_process_wakes_the_waiting_call(desk):
    waiting = desk.ask(view(1))
    desk.on_view(view(2, lease("other")), ME)
    assert not waiting.done()
    desk.on_view(view(3, lease("other"), lease(ME)), ME)
    assert waiting.done()


def test_a_closed_circuit_wakes_the_waiting_call(desk):
    waiting = desk.ask(view(1))
    desk.on_view(view(2, passes=True), ME)
    assert waiting.done()


def test_a_record_without_a_waiting_call_is_ignored(desk):
    desk.on_view(view(2, lease()), ME)
    desk.on_view(view(3, passes=True), ME)


def test_a_lease_is_for_one_call(desk):
    assert desk.take("t", "l1")
    assert not desk.take("t", "l1")
    assert desk.take("t", "l2")


def test_a_lease_given_back_is_for_the_next_call(desk):
    desk.take("t", "l1")
    desk.give_back("t", "l1")
    assert desk.take("t", "l1")


def test_one_of_many_threads_takes_the_lease_and_one_asks_for_a_probe(desk):
    taken, asked = [], []

    def race():
        taken.append(desk.take("t", "l1"))
        asked.append(desk.ask(view()) is not None)

    threads = [threading.Thread(target=race) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (taken.count(True), asked.count(True)) == (1, 1)


def test_a_circuit_is_silent_after_long_unanswered_requests(desk, clock):
    for _ in range(31):
        desk.ask(view())
        desk.answered("t")
        assert not desk.silent(view()) or clock.now >= 130
        clock.now += ASK_AGAIN_S
    assert desk.silent(view())
    assert not desk.silent(view(2))


def test_a_single_old_request_does_not_make_a_circuit_silent(desk, clock):
    desk.ask(view())
    desk.answered("t")
    clock.now += 1_000
    assert not desk.silent(view())


def test_a_closed_circuit_forgets_its_requests_and_leases(desk):
    desk.ask(view())
    desk.answered("t")
    desk.take("t", "l1")
    desk.on_view(view(2, passes=True), ME)
    assert (desk._waiting, desk._requests, desk._used) == ({}, {}, {})


def test_a_forked_child_has_no_requests_and_no_leases(desk):
    desk.ask(view())
    desk.take("t", "l1")
    desk.forked()
    assert desk.ask(view()) is not None
    assert desk.take("t", "l1")


def test_circuit_views_compare_by_value():
    assert view(1) == replace(view(2), version=1)
