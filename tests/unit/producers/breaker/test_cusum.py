import math
import random

import numpy as np
import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.cusum import Detector, solution, solve
from switchgear_schemas.plain_policy import LOCAL_TOOLS, PlainCusum
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy, Cusum
from tests.support.cusum import run_length
from tests.support.table import table

DEFAULT = solve(Cusum())


def simulated_run_length(detector: Detector, rate: float, runs: int, seed: int) -> float:
    draw = random.Random(seed).random
    total = 0
    for _ in range(runs):
        level = 0
        while level < detector.height:
            total += 1
            level = level + detector.up if draw() < rate else max(0, level - detector.down)
    return total / runs


def dense_run_length(detector: Detector, rate: float) -> float:
    """The textbook way: solve L = 1 + Q L by plain Gaussian elimination, with pivots."""
    n = detector.height
    rows = []
    for i in range(n):
        row = [0.0] * n + [1.0]
        row[i] += 1.0
        row[max(0, i - detector.down)] -= 1 - rate
        if i + detector.up < n:
            row[i + detector.up] -= rate
        rows.append(row)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            if factor:
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    solution = [0.0] * n
    for i in reversed(range(n)):
        known = sum(rows[i][k] * solution[k] for k in range(i + 1, n))
        solution[i] = (rows[i][n] - known) / rows[i][i]
    return solution[0]


def run_length_of_the_local_default(rate: float) -> float:
    """The mean number of calls to an open by five failures in a row or by the CUSUM, by the chain of both."""
    assert LOCAL_DEFAULT.cusum is not None
    detector, run = solve(LOCAL_DEFAULT.cusum), LOCAL_DEFAULT.consecutive_failures
    rise, fall, top = detector.up, detector.down, detector.height
    states = [(0, 0)]
    places = {(0, 0): 0}
    moves = []
    for place, (level, streak) in enumerate(states):
        for share, state in ((rate, (level + rise, streak + 1)), (1 - rate, (max(0, level - fall), 0))):
            if state[0] >= top or state[1] >= run:
                continue
            if state not in places:
                places[state] = len(states)
                states.append(state)
            moves.append((place, places[state], share))
    chain = np.eye(len(states))
    for start, end, share in moves:
        chain[start, end] -= share
    return float(np.linalg.solve(chain, np.ones(len(states)))[0])


@pytest.mark.parametrize("rule", [Cusum(), PlainCusum()])
def test_the_known_detector_of_the_default_rule_is_its_solution(rule):
    assert solve(rule) is DEFAULT
    assert solution(rule) == DEFAULT


@pytest.mark.parametrize("rule", [LOCAL_DEFAULT.cusum, LOCAL_TOOLS.cusum])
def test_the_known_detector_of_the_local_default_is_its_solution(rule):
    assert solve(rule) is solve(LOCAL_DEFAULT.cusum)
    assert solve(rule) == solution(rule)


def test_every_other_rule_is_solved():
    rule = Cusum(calls_between_false_opens=1000)
    assert solve(rule) == solution(rule)
    assert solve(rule).height < DEFAULT.height


@pytest.mark.parametrize(
    ("rate", "calls"), [(0.01, 1.01e10), (0.05, 3.37e6), (0.1, 111_110), (0.2, 3_905), (0.3, 586), (0.5, 62)]
)
def test_the_local_default_opens_as_seldom_as_the_documentation_says(rate, calls):
    assert run_length_of_the_local_default(rate) == pytest.approx(calls, rel=0.01)


def test_the_default_opens_at_about_twelve_nats():
    assert DEFAULT.height * DEFAULT.unit == pytest.approx(12, abs=0.05)
    assert 1e6 <= DEFAULT.calls_between_false_opens < 1.2e6


def test_the_weights_are_the_log_likelihood_ratios_within_two_thousandths():
    assert DEFAULT.up * DEFAULT.unit == pytest.approx(math.log(0.5 / 0.1), rel=0.002)
    assert DEFAULT.down * DEFAULT.unit == pytest.approx(math.log(0.9 / 0.5), rel=0.002)


def test_a_tool_that_is_hard_down_opens_after_eight_calls():
    assert run_length(DEFAULT, 1.0) == 8
    breaker = Breaker("c", BreakerPolicy(cusum=Cusum()), 0.0)
    calls = 1
    while breaker.record(0.0, Result(ResultKind.FAILURE)) is None:
        calls += 1
    assert calls == 8
    assert breaker.cause.rule == "cusum"
    assert breaker.cause.value >= breaker.cause.threshold == pytest.approx(12, abs=0.05)


@pytest.mark.parametrize(("rate", "calls"), [(0.5, 23.5), (0.3, 100), (0.2, 1430)])
def test_the_mean_number_of_calls_to_open_at_a_broken_rate_is_as_documented(rate, calls):
    assert run_length(DEFAULT, rate) == pytest.approx(calls, rel=0.02)


@pytest.mark.slow
@table(
    "rule",
    [
        Cusum(tolerable_failure_rate=0.2, broken_failure_rate=0.6, calls_between_false_opens=500),
        Cusum(tolerable_failure_rate=0.05, broken_failure_rate=0.9, calls_between_false_opens=5000),
        Cusum(tolerable_failure_rate=0.5, broken_failure_rate=0.8, calls_between_false_opens=100),
    ],
)
@table("rate", [0.05, 0.2, 0.5, 0.9])
def test_the_run_length_is_that_of_the_whole_chain_solved_densely(rule, rate):
    detector = solve(rule)
    assert run_length(detector, rate) == pytest.approx(dense_run_length(detector, rate), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.3, 0.5, 0.9])
def test_the_run_length_is_what_a_simulation_finds(rate):
    runs = 400 if rate == 0.2 else 2000
    exact = run_length(DEFAULT, rate)
    assert simulated_run_length(DEFAULT, rate, runs, seed=7) == pytest.approx(exact, rel=4 / math.sqrt(runs))


@pytest.mark.parametrize("wanted", [10, 100, 10_000, 1_000_000])
def test_the_height_is_the_smallest_that_gives_the_wanted_calls_between_false_opens(wanted):
    detector = solve(Cusum(calls_between_false_opens=wanted))
    lower = Detector(detector.up, detector.down, detector.height - 1, detector.unit, 0.0)
    assert run_length(lower, 0.1) < wanted <= run_length(detector, 0.1)


@pytest.mark.slow
@table(("tolerable", "broken"), [(0.001, 0.999), (0.01, 0.011), (0.5, 0.51), (0.9, 0.95), (0.001, 0.002)])
def test_heights_are_found_for_extreme_rates(tolerable, broken):
    rule = Cusum(tolerable_failure_rate=tolerable, broken_failure_rate=broken, calls_between_false_opens=10_000)
    detector = solve(rule)
    assert 10_000 <= detector.calls_between_false_opens == pytest.approx(run_length(detector, tolerable))
    assert run_length(detector, broken) < detector.calls_between_false_opens


def test_the_solution_is_remembered_by_its_parameters():
    assert solve(Cusum()) is solve(Cusum(calls_between_false_opens=1e6))


def test_successes_never_take_the_sum_below_zero():
    breaker = Breaker("c", BreakerPolicy(cusum=Cusum()), 0.0)
    breaker.record(0.0, Result(ResultKind.FAILURE))
    for _ in range(1000):
        breaker.record(0.0, Result())
    opened_after = next(n for n in range(1, 20) if breaker.record(0.0, Result(ResultKind.FAILURE)))
    assert opened_after == 8


@pytest.mark.slow
def test_no_other_tuning_opens_sooner_at_the_share_that_a_detector_is_tuned_to():
    tuned = {share: solve(Cusum(broken_failure_rate=share)) for share in (0.2, 0.3, 0.5, 0.99)}
    for share in (0.2, 0.3, 0.5):
        delays = {broken: run_length(detector, share) for broken, detector in tuned.items()}
        assert min(delays, key=delays.__getitem__) == share


@pytest.mark.parametrize(("failures", "calls"), [(5, 111_110), (6, 1_111_110)])
def test_a_run_of_failures_comes_as_seldom_as_the_documentation_says(failures, calls):
    rate = 0.1
    expected = 0.0  # mean calls to a run of n, from the mean to a run of n - 1
    for _ in range(failures):
        expected = (expected + 1) / rate
    assert round(expected) == calls
