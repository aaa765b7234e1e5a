"""Finalizers and signal handlers that run while a circuit decides, in the same thread, neither hang nor break it.

``on_move`` plays their part: it is called with the lock held and the breaker half-way.
"""

from __future__ import annotations

import gc
import time

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.breaker import BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear.guard.local_circuits import LocalBreakers

POLICY = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=10)
FAILURE = Result(ResultKind.FAILURE)


@pytest.fixture
def breakers():
    return LocalBreakers(POLICY, lambda: 0.0)


def within_the_next_transition(breakers, circuit, work):
    """Run ``work`` once, within the change of state of ``circuit`` that comes next; what it gave is kept."""
    gave = []

    def moved(_transition):
        if not gave:
            gave.append("running")
            gave[0] = work()

    circuit.breaker.on_move = moved
    return gave


def test_a_probe_released_within_a_transition_is_free_after_it(breakers):
    circuit = breakers.get("t")
    for _ in range(2):
        circuit.record(0.0, FAILURE, None)
    probe = circuit.try_acquire(10.0)
    assert isinstance(probe, BreakerPermit)
    assert isinstance(circuit.try_acquire(10.0), BreakerRejection)
    circuit.release(probe, 10.0)
    again = circuit.try_acquire(10.0)
    assert isinstance(again, BreakerPermit)
    gave = within_the_next_transition(breakers, circuit, lambda: circuit.release(again, 10.0))
    circuit.record(10.0, FAILURE, again)
    assert gave == [None]
    assert circuit.breaker.state == "open"
    assert isinstance(circuit.try_acquire(1_000.0), BreakerPermit)


def test_a_call_within_the_transition_to_closed_is_let_through(breakers):
    circuit = breakers.get("t")
    for _ in range(2):
        circuit.record(0.0, FAILURE, None)
    probe = circuit.try_acquire(10.0)
    gave = within_the_next_transition(breakers, circuit, lambda: circuit.try_acquire(10.0))
    circuit.record(10.0, Result(ResultKind.SUCCESS), probe)
    assert circuit.breaker.state == "closed"
    assert isinstance(gave[0], BreakerPermit)


def test_an_exception_within_a_transition_leaves_the_circuit_usable(breakers):
    circuit = breakers.get("t")
    circuit.record(0.0, FAILURE, None)

    def interrupted():
        raise KeyboardInterrupt

    within_the_next_transition(breakers, circuit, interrupted)
    with pytest.raises(KeyboardInterrupt):
        circuit.record(0.0, FAILURE, None)
    assert isinstance(circuit.try_acquire(1.0), BreakerRejection)
    assert isinstance(circuit.try_acquire(100.0), BreakerPermit)


@pytest.mark.slow
def test_a_stream_collected_within_a_transition_gives_its_permit_back():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.001))

    @gear.guard("t")
    def stream():
        yield 1
        yield 2

    class Node:
        """Part of a cycle, so that nothing but the collector ends what it holds."""

    gc.disable()
    try:
        for _ in range(3):
            node = Node()
            node.me, node.held = node, stream()
            next(node.held)
            node = None
            circuit = gear._decision.local.get("t")
            gave = within_the_next_transition(gear._decision.local, circuit, gc.collect)
            gear.try_acquire("t").failure(ConnectionError())
            assert gave[0] > 0
            circuit.breaker.on_move = None
            time.sleep(0.01)
            gear.try_acquire("t").success()
            assert circuit.breaker.state == "closed"
    finally:
        gc.enable()
