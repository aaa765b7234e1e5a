"""Sizes are exact. Times have a wide margin, because build machines are slow. The benchmark prints the real ones."""

import time
import tracemalloc

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("policy", [FLEET_DEFAULT, LOCAL_DEFAULT], ids=["fleet", "local"])
def test_a_circuit_takes_at_most_six_kilobytes(policy):
    result = Result(ResultKind.SUCCESS, 10.0, 5, "reporter-1")
    Breaker("warm", policy, 0.0).record(0.0, result)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        breakers = [Breaker(f"tool-{number}", policy, 1.7e9) for number in range(200)]
        for breaker in breakers:
            for call in range(300):
                breaker.record(1.7e9 + call * 0.5, result)
        assert (tracemalloc.get_traced_memory()[0] - before) / 200 <= 6144
    finally:
        tracemalloc.stop()


def best_of(act, rounds=7, calls=3000):
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            act()
        best = min(best, (time.thread_time_ns() - start) / calls)
    return best


def test_a_call_costs_the_same_in_a_window_of_ten_seconds_and_of_an_hour():
    costs = []
    for size in (10, 3600):
        breaker = Breaker("c", FLEET_DEFAULT.model_copy(update={"sliding_window_size": size}), 0.0)
        result = Result(reporter="a")
        costs.append(best_of(lambda b=breaker, r=result: b.record(5.0, r)))
    assert max(costs) < 2 * min(costs)


def test_refusing_a_million_calls_grows_nothing():
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    breaker.transition_to("open", 0.0, actor="me", open_for_s=1e9)
    breaker.try_acquire(1.0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            breaker.try_acquire(1.0)
        assert tracemalloc.get_traced_memory()[0] - before < 1000
    finally:
        tracemalloc.stop()
