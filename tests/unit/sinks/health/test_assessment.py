"""Verdicts, issues and recommendations, as pure functions of the figures."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_schemas.health import HealthStatus
from switchgear_sinks.health.assessment import Assessment, ToolFigures, assess, percent
from tests.support.table import table

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SENT = "calls in the last hour were rejected because of what the caller sent (invalid_input)"
H, D, U, N = HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY, HealthStatus.UNKNOWN


def evidence(succeeded=10, failed=0, timed_out=0, avg=100.0, hours=1, callers=0, cancelled=0, **more):
    judged = succeeded + failed + timed_out
    stats = {
        "total_calls": judged + callers + cancelled,
        "success_count": succeeded,
        "error_count": failed + callers,
        "timeout_count": timed_out,
        "caller_error_count": callers,
        "cancelled_count": cancelled,
        "avg_cancelled_ms": 2500.0 if cancelled else 0.0,
        "success_rate": succeeded / judged if judged else 0.0,
        "avg_time_ms": avg,
        "p95_time_ms": 2 * avg,
    }
    return ToolFigures("search", stats, hours, now=NOW, **more)


def error(kind, count=3, example="boom", caller=None):
    return {
        "error_type": kind,
        "caller_error": caller,
        "count": count,
        "example": example,
        "first_seen": NOW,
        "last_seen": NOW,
    }


def circuit(state, open_until=None, **cause):
    return {"state": state, "changed_at": NOW - timedelta(minutes=5), "open_until": open_until, "cause": cause or None}


def test_the_issue_of_a_low_success_rate_has_its_numbers():
    verdict = assess(evidence(7, 2, 1))
    assert verdict.status is U
    assert verdict.issues == [
        "Success rate 70 %, below 80 %: 3 of 10 calls failed in the last hour (1 timed out).",
    ]


def test_the_issue_of_latency_has_its_numbers_and_the_slow_end():
    verdict = assess(evidence(avg=3000, hours=24))
    assert verdict.issues == [
        "Average latency 3000 ms, above 2000 ms in the last 24 hours; 95 % of calls took up to 6000 ms."
    ]
    assert verdict.recommendations


def test_the_issue_names_the_most_frequent_error_and_since_when():
    verdict = assess(evidence(5, 5, errors=[error("KeyError", 4, "no 'x'"), error("ValueError", 1)]))
    assert verdict.issues[1] == "Most frequent error: KeyError, 4 times since 2026-03-01 12:00 UTC: no 'x'"


def test_long_error_message_is_cut_in_an_issue():
    verdict = assess(evidence(9, 1, errors=[error("E", 1, "x" * 1000)]))
    assert verdict.issues[-1].endswith("…")
    assert "once" in verdict.issues[-1]
    assert len(verdict.issues[-1]) < 250


@table(
    ("kind", "word"),
    [
        ("RateLimitError", "less often"),
        ("rate_limited", "less often"),
        ("auth", "credentials"),
        ("TimeoutError", "slow"),
        ("transport", "reached"),
        ("invalid_input", "wrong arguments"),
        ("server", "its side"),
        ("SomethingElse", "switchgear errors --tool search"),
    ],
)
def test_recommendation_fits_the_most_frequent_error(kind, word):
    verdict = assess(evidence(5, 5, errors=[error(kind)]))
    assert word in verdict.recommendations[0]


def test_recommendation_for_timeouts_without_an_error_type_is_about_timeouts():
    assert "slow" in assess(evidence(5, 0, 5)).recommendations[0]


def test_issue_of_too_few_calls_says_how_many_are_needed():
    assert assess(evidence(3)).issues == ["Only 3 of the 5 calls needed for a status in the last hour."]
    assert assess(evidence(0)).issues == ["No calls in the last hour."]


@table(
    ("state", "until", "status"),
    [
        ("open", NOW + timedelta(minutes=1), U),
        ("open", NOW - timedelta(minutes=1), N),
        ("forced_open", None, U),
        ("half_open", None, N),
        ("closed", None, N),
        ("metrics_only", None, N),
    ],
)
def test_tool_whose_circuit_refuses_calls_is_unhealthy_without_calls(state, until, status):
    assert assess(evidence(0, circuit=circuit(state, until))).status is status


def test_an_open_circuit_is_an_issue_with_its_cause_and_the_next_probe():
    verdict = assess(
        evidence(2, 8, circuit=circuit("open", NOW + timedelta(minutes=1), rule="cusum", sample=8, failed=8))
    )
    assert verdict.issues[-1] == "Its circuit is open since 2026-03-01 11:55 UTC: 8 of the last 8 calls failed."
    assert verdict.recommendations[-1].endswith("at 2026-03-01 12:01 UTC the earliest.")
    due = assess(evidence(2, 8, circuit=circuit("open", NOW, rule="cusum")))
    assert due.recommendations[-1] == "The next call of search is the probe that decides."


def test_issue_of_a_forced_open_circuit_has_the_reason():
    verdict = assess(evidence(10, circuit=circuit("forced_open", reason="maintenance", actor="ops")))
    assert verdict.status is H, "the calls that were made were fine"
    assert "maintenance" in verdict.issues[-1]
    assert "forced" in verdict.recommendations[-1]


def test_closed_circuit_is_not_an_issue():
    assert assess(evidence(10, circuit=circuit("closed"))).issues == []


@table(("share", "text"), [(1, "100 %"), (0.95, "95 %"), (0.94999, "94.99 %"), (0, "0 %"), (0.9999999, "99.99 %")])
def test_a_percentage_is_never_rounded_up_to_a_threshold_that_was_missed(share, text):
    assert percent(share) == text


def test_tool_with_only_caller_errors_is_unknown_with_advice_for_its_callers():
    verdict = assess(evidence(0, callers=12, errors=[error("ValueError", 12, "no such city", "invalid_input")]))
    assert verdict.status is N
    assert verdict.issues == [
        "No status: none of the 12 calls in the last hour count for search's health; 5 are needed.",
        f"12 of 12 {SENT}: ValueError: no such city",
    ]
    assert verdict.recommendations == [
        "Correct how search is called: its schema or description leads callers to wrong arguments."
    ]


def test_tool_with_only_cancelled_calls_is_unknown_with_the_time_after_which_callers_give_up():
    verdict = assess(evidence(0, cancelled=12))
    assert verdict.status is N
    assert verdict.issues[1] == "12 of 12 calls in the last hour were cancelled by the caller, after 2.5 s on average."
    assert verdict.recommendations == ["Callers of search give up after 2.5 s on average: look at their time limits."]


@pytest.mark.parametrize(
    ("kind", "issue", "advice"),
    [
        ("invalid_input", "because of what the caller sent", "how search is called"),
        ("auth", "credentials", "Renew"),
        ("tool", "the tool's own answer", "Read what search answers"),
        ("policy", "another guarded tool refused or their caller ignores them", "switchgear circuits"),
    ],
)
def test_each_kind_of_caller_error_has_its_issue_and_its_advice(kind, issue, advice):
    verdict = assess(evidence(10, callers=5, errors=[error("E", 5, caller=kind)]))
    assert verdict.status is H, "the calls that say something of the tool were fine"
    (said,) = verdict.issues
    assert issue in said
    assert f"({kind}): E: boom" in said
    (what_to_do,) = verdict.recommendations
    assert advice in what_to_do
    assert "fallback" not in what_to_do


def test_the_rate_the_failures_and_the_most_frequent_error_are_those_of_the_tool():
    found = [error("ValueError", 20, "no such city", "invalid_input"), error("ConnectError", 4, "refused")]
    verdict = assess(evidence(6, 4, callers=20, cancelled=10, errors=found))
    assert verdict.status is U
    assert verdict.issues == [
        "Success rate 60 %, below 80 %: 4 of 10 judged calls failed in the last hour (0 timed out).",
        "Most frequent error: ConnectError, 4 times since 2026-03-01 12:00 UTC: refused",
        f"20 of 40 {SENT}: ValueError: no such city",
        "10 of 40 calls in the last hour were cancelled by the caller, after 2.5 s on average.",
    ]


def test_few_caller_errors_and_cancelled_calls_are_not_an_issue():
    few = evidence(97, callers=2, cancelled=1, errors=[error("ValueError", 2, caller="invalid_input")])
    assert assess(few) == Assessment(H, [], [])
    enough = evidence(95, callers=5, errors=[error("ValueError", 5, caller="invalid_input")])
    assert len(assess(enough).issues) == 1, "5 of 100, the share of failures that costs a tool its health"


def test_caller_errors_are_listed_from_the_most_to_the_least_frequent():
    found = [
        error("HTTPStatusError", 3, "404", "invalid_input"),
        error("auth", 3, "", "auth"),
        error("TypeError", 2, "", "invalid_input"),
    ]
    issues = assess(evidence(10, callers=8, errors=found)).issues
    assert [each.partition(" calls")[0] for each in issues] == ["5 of 18", "3 of 18"]
    assert issues[0].endswith("(invalid_input): HTTPStatusError: 404")
    assert issues[1].endswith("(auth)"), "the type that stands in for a missing one is not repeated"


def test_tool_whose_circuit_refuses_calls_is_unhealthy_whatever_its_callers_do():
    verdict = assess(evidence(0, cancelled=12, circuit=circuit("open", NOW + timedelta(minutes=1), rule="cusum")))
    assert verdict.status is U
