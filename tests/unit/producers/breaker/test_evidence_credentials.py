"""Different credentials that a tool rejects in a row are an outage of the tool."""

from __future__ import annotations

import msgspec
import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.evidence import MOST_DENIED
from switchgear.breaker.snapshot import SnapshotError
from switchgear.breaker.steady import steady
from switchgear_schemas.explain import explain
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from tests.support.table import table

OK, BAD = Result(), Result(ResultKind.FAILURE)


def denied(credential, reporter=""):
    return Result(ResultKind.IGNORED, reporter=reporter, credential=credential)


def played(results, policy=LOCAL_DEFAULT, step_s=1.0):
    breaker = Breaker("t", policy, 0.0)
    for number, result in enumerate(results):
        breaker.record(number * step_s, result)
    return breaker


def test_three_credentials_in_a_row_open_the_tool():
    breaker = played(map(denied, "abc"))
    assert (breaker.state, breaker.cause.rule, breaker.cause.value) == ("open", "auth_failures", 3.0)
    assert explain(breaker.cause, state="open") == (
        "3 different credentials in a row were rejected within 60 s (the limit is 3)"
    )


@table(
    "calls",
    [
        [*map(denied, "ab"), OK, *map(denied, "ab")],
        [*map(denied, "ab"), OK, denied("c"), OK, denied("d")],
        list(map(denied, "ababababab")),
        list(map(denied, "aaaaaaaaaa")),
        [denied("")] * 10,
        [Result(ResultKind.IGNORED)] * 10,
    ],
)
def test_rows_that_say_nothing_about_the_tool_leave_it_closed(calls):
    assert played(calls).state == "closed"


def test_three_people_with_old_tokens_among_a_thousand_others_are_no_outage():
    calls = [each for name in "abcabcabc" for each in (*[OK] * 100, denied(name), denied(name))]
    assert played(calls, step_s=0.01).state == "closed"


def test_failures_in_between_neither_count_nor_end_the_row():
    breaker = played([denied("a"), BAD, denied("b"), BAD, denied("c")])
    assert breaker.cause.rule == "auth_failures"


def test_credentials_that_were_rejected_before_the_window_do_not_count():
    assert played(map(denied, "abcde"), step_s=31.0).state == "closed"
    assert played(map(denied, "abcde"), step_s=20.0).state == "open"


def test_the_row_of_a_count_window_is_as_long_as_the_window():
    policy = BreakerPolicy(sliding_window_type="count", sliding_window_size=4, minimum_number_of_calls=4)
    assert played(map(denied, "abc"), policy, step_s=1_000).state == "open"
    assert played([denied("a"), denied("b"), *[BAD] * 4, denied("c")], policy).state == "closed"


@table("limit, calls, state", [(1, "a", "open"), (2, "ab", "open"), (4, "abc", "closed"), (None, "abcdefgh", "closed")])
def test_the_limit_is_the_policys(limit, calls, state):
    assert played(map(denied, calls), BreakerPolicy(consecutive_auth_failures=limit)).state == state


def test_a_limit_that_no_circuit_can_remember_opens_none_and_keeps_none():
    policy = BreakerPolicy(consecutive_auth_failures=MOST_DENIED + 1)
    breaker = played(map(denied, map(str, range(1_000))), policy, step_s=0.01)
    assert (breaker.state, len(breaker._evidence.denied)) == ("closed", 0)
    policy = BreakerPolicy(consecutive_auth_failures=MOST_DENIED)
    assert played(map(denied, map(str, range(MOST_DENIED))), policy, step_s=0.01).state == "open"


def test_a_policy_that_counts_the_class_counts_failures_alone():
    assert played([Result(ResultKind.FAILURE, credential=each) for each in "abcd"]).state == "closed"


def test_the_fleets_circuit_needs_as_many_processes_as_for_other_failures():
    calls = [denied(each, "one") for each in "abc"]
    assert played(calls, FLEET_DEFAULT).state == "open", "nobody else calls it"
    other = Result(reporter="other")
    assert played([other, *calls], FLEET_DEFAULT).state == "closed"
    breaker = played([other, *calls, denied("d", "other")], FLEET_DEFAULT)
    assert (breaker.state, breaker.cause.reporters) == ("open", 2)


def test_a_process_whose_credentials_are_rejected_confirms_no_other_rule():
    policy = BreakerPolicy(consecutive_failures=2, minimum_reporters=2, consecutive_auth_failures=10)
    bad = Result(ResultKind.FAILURE, reporter="one")
    assert played([denied("a", "two"), bad, bad, bad], policy).state == "closed"


def test_a_rule_that_too_few_confirm_does_not_hide_another_one():
    policy = BreakerPolicy(failure_count=2, minimum_reporters=2)
    calls = [
        *(denied(each, "one") for each in "abc"),
        *(Result(ResultKind.FAILURE, reporter=each) for each in ("one", "two")),
    ]
    breaker = played([Result(reporter="three"), *calls], policy)
    assert breaker.cause.rule == "failure_count"


def test_the_next_success_is_looked_at():
    breaker = Breaker("t", LOCAL_DEFAULT, 0.0)
    assert breaker.quiet is not None
    breaker.record(1.0, denied("a"))
    assert breaker.quiet is None
    assert steady(breaker._evidence) is None
    breaker.record(2.0, OK)
    assert breaker.quiet is not None
    assert steady(breaker._evidence) is not None


def test_a_probe_that_is_rejected_says_nothing_and_one_that_works_closes():
    breaker = played(map(denied, "abc"))
    permit = breaker.try_acquire(62.0)
    breaker.record(63.0, denied("a"), permit)
    assert breaker.state == "half_open"
    permit = breaker.try_acquire(64.0)
    breaker.record(65.0, OK, permit)
    assert (breaker.state, breaker._evidence.denied) == ("closed", {})


def test_a_circuit_that_only_measures_reports_it():
    breaker = played(map(denied, "abc"), BreakerPolicy(mode="metrics_only"))
    assert (breaker.state, breaker.cause.rule) == ("metrics_only", "auth_failures")


# -- snapshots ------------------------------------------------------------------------------------------------------------


def test_a_snapshot_keeps_the_row():
    breaker = played([denied("a", "one"), denied("b", "two")])
    restored = Breaker.restore(breaker.snapshot(), LOCAL_DEFAULT)
    assert restored._evidence.denied == breaker._evidence.denied
    restored.record(3.0, denied("c"))
    assert restored.state == "open"


def test_a_policy_with_a_lower_limit_keeps_the_last_of_them():
    breaker = played(map(denied, "ab"))
    breaker.set_policy(LOCAL_DEFAULT.model_copy(update={"consecutive_auth_failures": 1}), 3.0)
    assert list(breaker._evidence.denied) == ["b"]
    breaker.set_policy(LOCAL_DEFAULT.model_copy(update={"consecutive_auth_failures": None}), 4.0)
    assert breaker._evidence.denied == {}


def test_a_snapshot_with_more_credentials_than_possible_is_refused():
    fields = msgspec.msgpack.decode(played(map(denied, "ab")).snapshot())
    fields[16][-1] = [[str(number), 1, ""] for number in range(MOST_DENIED + 1)]
    with pytest.raises(SnapshotError, match="more rejected credentials"):
        Breaker.restore(msgspec.msgpack.encode(fields), LOCAL_DEFAULT)
