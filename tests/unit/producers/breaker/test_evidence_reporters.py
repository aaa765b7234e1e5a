import random

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.evidence import Reporters
from switchgear_schemas.policy import BreakerPolicy


def bad(reporter):
    return Result(ResultKind.FAILURE, reporter=reporter)


def breaker_of(**rules) -> Breaker:
    return Breaker("c", BreakerPolicy(failure_count=3, sliding_window_size=10, **rules), 0.0)


def test_one_bad_node_does_not_poison_the_others():
    breaker = breaker_of(minimum_reporters=2)
    breaker.record(0.0, Result(reporter="good"))
    for _ in range(100):
        assert breaker.record(0.0, bad("broken")) is None
    transition = breaker.record(0.0, bad("good"))
    assert transition.state == "open"
    assert transition.cause.reporters == 2


def test_one_reporter_is_enough_where_it_alone_called():
    breaker = breaker_of(minimum_reporters=5)
    assert [breaker.record(0.0, bad("only")) is None for _ in range(3)] == [True, True, False]


def test_a_caller_that_left_the_window_does_not_count_for_reporters():
    breaker = breaker_of(minimum_reporters=2)
    breaker.record(0.0, Result(reporter="gone"))
    for second in (1.0, 2.0, 3.0):
        assert breaker.record(second, bad("left")) is None
    assert breaker.record(10.5, bad("left")) is not None


def test_a_failure_that_left_the_window_does_not_count_for_reporters():
    breaker = breaker_of(minimum_reporters=2)
    breaker.record(0.0, bad("a"))
    for second in (9.0, 9.5, 9.9):
        breaker.record(second, Result(reporter="a"))
        if second < 9.9:
            breaker.record(second, bad("b"))
    assert breaker.record(10.5, bad("b")) is None


def test_a_slow_call_rate_needs_a_minimum_of_reporters():
    rules = {"slow_call_duration_threshold_ms": 1, "slow_call_rate_threshold": 0.5, "minimum_number_of_calls": 4}
    breaker = Breaker("c", BreakerPolicy(minimum_reporters=2, **rules), 0.0)
    results = [Result(reporter="b"), *[Result(duration_ms=9, reporter="a")] * 5]
    assert [breaker.record(0.0, result) for result in results] == [None] * 6
    assert breaker.record(0.0, Result(duration_ms=9, reporter="b")) is not None


@pytest.mark.slow
def test_a_sum_held_back_by_too_few_reporters_falls_again_at_the_next_successes():
    breaker = Breaker("c", BreakerPolicy(cusum={}, minimum_reporters=2), 0.0)
    breaker.record(0.0, Result(reporter="b"))
    for _ in range(10_000):
        breaker.record(0.0, bad("a"))
    for _ in range(30):
        breaker.record(0.0, Result(reporter="b"))
    assert breaker.record(0.0, bad("b")) is None


def test_the_count_is_exact_up_to_the_limit_though_only_so_many_are_kept():
    chance = random.Random(1)
    reporters, last_seen = Reporters(4), {}
    for stamp in range(2000):
        name = f"n{chance.randrange(12)}"
        reporters.add(name, stamp)
        last_seen[name] = stamp
        oldest = stamp - chance.randrange(1, 15)
        if chance.random() < 0.2:
            copy = Reporters(4)
            copy.seen = dict(reporters.seen)
            assert copy.count(oldest) == min(4, sum(seen >= oldest for seen in last_seen.values()))
        assert len(reporters.seen) <= 4


def test_processes_of_one_node_with_a_long_name_stay_apart():
    node = "planner@" + "node-with-a-very-long-name-" * 5
    breaker = breaker_of(minimum_reporters=2)
    breaker.record(0.0, bad(f"{node}-4711-1f3a"))
    breaker.record(0.0, bad(f"{node}-4711-1f3a"))
    transition = breaker.record(0.0, bad(f"{node}-4712-9c2e"))
    assert transition.cause.reporters == 2
