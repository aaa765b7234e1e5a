"""The cause of a decision is enough for a sentence about it, with the numbers of the calls."""

import re
from pathlib import Path

import switchgear
from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear_schemas import explain as module
from switchgear_schemas.explain import explain
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy, Cusum
from tests.support.table import table

OK = Result(duration_ms=10)
BAD = Result(ResultKind.FAILURE, duration_ms=10)
LATE = Result(duration_ms=2500)
SLOW_RULES = {"slow_call_duration_threshold_ms": 2000, "slow_call_rate_threshold": 0.5}


def words_of(breaker) -> str:
    return explain(breaker.cause, breaker.counts(breaker.clock), state=breaker.state)


def fed(policy, *results) -> str:
    breaker = Breaker("c", policy, 0.0)
    for second, result in enumerate(results):
        breaker.record(float(second), result)
    assert breaker.state in {"open", "metrics_only"}
    return words_of(breaker)


@table(
    ("rules", "results", "sentence"),
    [
        ({"consecutive_failures": 3}, [OK, BAD, BAD, BAD], "3 calls in a row failed (the limit is 3)"),
        (
            {"failure_count": 3},
            [BAD, OK, BAD, OK, BAD],
            "3 of 5 calls within 60 s failed (the limit is 3 failed calls)",
        ),
        (
            {"failure_rate_threshold": 0.6, "minimum_number_of_calls": 5},
            [OK, OK, BAD, BAD, BAD],
            "3 of 5 calls within 60 s failed (60 %; the limit is 60 %)",
        ),
        (
            {
                "failure_rate_threshold": 0.6, "minimum_number_of_calls": 5, "sliding_window_type": "count",
                "sliding_window_size": 5,
            },
            [OK, OK, OK, BAD, BAD, OK, BAD],
            "3 of the last 5 calls failed (60 %; the limit is 60 %)",
        ),
        (
            SLOW_RULES | {"minimum_number_of_calls": 2},
            [OK, LATE],
            "1 of 2 calls within 60 s took longer than 2 s (50 %; the limit is 50 %)",
        ),
        (
            {"wasted_tokens": 1000},
            [Result(tokens=5000), Result(ResultKind.FAILURE, tokens=1200)],
            "failed calls used 1,200 tokens within 60 s (the limit is 1,000)",
        ),
        (
            {"cusum": Cusum()},
            [OK] * 20 + [BAD] * 4 + [OK] * 2 + [BAD] * 5,
            "9 of the last 11 calls failed; a healthy tool (at most 10 % failures) gets that far less than once in 1,000,000 calls",
        ),
        (
            {"cusum": Cusum(tolerable_failure_rate=0.2, broken_failure_rate=0.7, calls_between_false_opens=5000)},
            [BAD] * 6,
            "6 of the last 6 calls failed; a healthy tool (at most 20 % failures) gets that far less than once in 5,000 calls",
        ),
        (
            {"consecutive_failures": 2, "mode": "metrics_only"},
            [BAD, BAD],
            "would have opened: 2 calls in a row failed (the limit is 2)",
        ),
    ],
)  # fmt: skip
def test_the_cause_of_a_breach_has_the_number_of_calls_and_failures(rules, results, sentence):
    assert fed(BreakerPolicy(**rules), *results) == sentence


def test_the_fleets_default_names_the_processes_that_reported():
    breaker = Breaker("c", FLEET_DEFAULT, 0.0)
    for call in range(8):
        breaker.record(0.0, Result(ResultKind.FAILURE, reporter=f"process {call % 3}"))
    assert words_of(breaker).endswith("once in 1,000,000 calls; reported by at least 2 processes")


def test_a_cusum_counts_the_calls_since_its_sum_was_last_zero_however_many_lie_in_the_window():
    breaker = Breaker("c", BreakerPolicy(cusum=Cusum()), 0.0)
    for _ in range(5000):
        breaker.record(1.0, OK)
    for _ in range(8):
        breaker.record(1.0, BAD)
    assert (breaker.cause.sample, breaker.cause.failed) == (8, 8)
    assert breaker.counts(1.0).calls == 5008


def test_a_cusum_counts_the_calls_since_its_sum_was_last_zero_however_few_lie_in_the_window():
    breaker = Breaker("c", BreakerPolicy(cusum=Cusum()), 0.0)
    for call in range(8):
        breaker.record(call * 600.0, BAD)
    assert (breaker.cause.sample, breaker.cause.failed) == (8, 8)
    assert breaker.counts(4200.0).calls == 1


def test_a_cusum_that_fell_to_zero_counts_its_calls_from_zero():
    breaker = Breaker("c", BreakerPolicy(cusum=Cusum()), 0.0)
    for result in [BAD, BAD, *[OK] * 6, *[BAD] * 8]:
        breaker.record(0.0, result)
    assert (breaker.cause.sample, breaker.cause.failed) == (8, 8)


def test_the_count_of_a_cusum_goes_on_in_a_restored_breaker():
    policy = BreakerPolicy(cusum=Cusum())
    breaker = Breaker("c", policy, 0.0)
    for result in [BAD, BAD, OK, OK, BAD]:
        breaker.record(0.0, result)
    again = Breaker.restore(breaker.snapshot(), policy)
    for _ in range(6):
        again.record(1.0, BAD)
    assert (again.cause.sample, again.cause.failed) == (11, 9)
    opened = Breaker.restore(again.snapshot(), policy)
    assert opened.cause == again.cause
    assert words_of(opened) == words_of(again)


def test_the_cause_of_a_probe_reads_as_a_sentence():
    policy = BreakerPolicy(consecutive_failures=1, success_threshold_to_close=2, **SLOW_RULES)
    breaker = Breaker("c", policy, 0.0)
    breaker.record(0.0, BAD)

    def probed(now, result):
        permit = breaker.try_acquire(now)
        assert isinstance(permit, BreakerPermit)
        breaker.record(now, result, permit)
        return words_of(breaker)

    assert probed(60.0, BAD) == "the probe call failed"
    assert probed(120.0, LATE) == "the probe call took longer than 2 s"
    assert probed(180.0, OK) == "the wait is over, and a probe call tests the tool"
    assert probed(180.0, BAD) == "1 of 2 probe calls failed"
    probed(240.0, OK)
    assert probed(240.0, OK) == "2 probe calls succeeded"


def test_the_cause_of_an_expired_half_open_stay_reads_as_a_sentence():
    breaker = Breaker("c", BreakerPolicy(consecutive_failures=1), 0.0)
    breaker.record(0.0, BAD)
    breaker.try_acquire(60.0)
    breaker.advance(90.0)
    assert words_of(breaker) == "no probe call came back within 30 s"


def test_every_rule_that_the_code_can_name_has_a_sentence_of_its_own():
    named = re.compile(r'(?:Cause\(\s*(?:rule=)?|_cause\(|_in_window\(policy, )"(\w+)"')
    sources = Path(switchgear.__file__).parent.rglob("*.py")
    rules = {rule for source in sources for rule in named.findall(source.read_text())}
    assert {"cusum", "probe_failed", "command", "state_lost"} < rules, "the search finds them"
    assert rules <= {*module._BREACHES, *module._OTHERS}
