"""Verdicts, issues and recommendations, as pure functions of the figures."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_schemas.health import HealthStatus
from switchgear_sinks.health.assessment import Evidence, assess, percent, system_status

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
H, D, U, N = HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY, HealthStatus.UNKNOWN


def evidence(succeeded=10, failed=0, timed_out=0, avg=100.0, hours=1, **more):
    total = succeeded + failed + timed_out
    stats = {
        "total_calls": total,
        "success_count": succeeded,
        "error_count": failed,
        "timeout_count": timed_out,
        "success_rate": succeeded / total if total else 0.0,
        "avg_time_ms": avg,
        "p95_time_ms": 2 * avg,
    }
    return Evidence("search", stats, hours, now=NOW, **more)


def error(kind, count=3, example="boom"):
    return {"error_type": kind, "count": count, "example": example, "first_seen": NOW, "last_seen": NOW}


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


def test_a_long_message_is_cut():
    verdict = assess(evidence(9, 1, errors=[error("E", 1, "x" * 1000)]))
    assert verdict.issues[-1].endswith("…")
    assert "once" in verdict.issues[-1]
    assert len(verdict.issues[-1]) < 250


@pytest.mark.parametrize(
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
def test_the_advice_fits_the_error(kind, word):
    verdict = assess(evidence(5, 5, errors=[error(kind)]))
    assert word in verdict.recommendations[0]


def test_timeouts_without_a_named_error_are_advised_as_timeouts():
    assert "slow" in assess(evidence(5, 0, 5)).recommendations[0]


def test_too_few_calls_say_how_many_are_missing():
    assert assess(evidence(3)).issues == ["Only 3 of the 5 calls needed for a verdict in the last hour."]
    assert assess(evidence(0)).issues == ["No calls in the last hour."]


@pytest.mark.parametrize(
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
def test_a_tool_that_nobody_may_call_is_unhealthy_though_nobody_called_it(state, until, status):
    assert assess(evidence(0, circuit=circuit(state, until))).status is status


def test_an_open_circuit_is_an_issue_with_its_cause_and_the_next_probe():
    verdict = assess(evidence(2, 8, circuit=circuit("open", NOW + timedelta(minutes=1), rule="cusum")))
    assert verdict.issues[-1] == "Its circuit is open since 2026-03-01 11:55 UTC (cusum)."
    assert verdict.recommendations[-1].endswith("at 2026-03-01 12:01 UTC the earliest.")
    due = assess(evidence(2, 8, circuit=circuit("open", NOW, rule="cusum")))
    assert due.recommendations[-1] == "The next call of search is the probe that decides."


def test_a_circuit_that_somebody_forced_open_tells_the_reason():
    verdict = assess(evidence(10, circuit=circuit("forced_open", reason="maintenance", actor="ops")))
    assert verdict.status is H, "the calls that were made were fine"
    assert "maintenance" in verdict.issues[-1]
    assert "forced" in verdict.recommendations[-1]


def test_a_closed_circuit_is_no_issue():
    assert assess(evidence(10, circuit=circuit("closed"))).issues == []


@pytest.mark.parametrize(
    ("statuses", "system"),
    [
        ([], N),
        ([N, N], N),
        ([H, N], H),
        ([H, D], D),
        ([H] * 10 + [D] * 2 + [U], D),  # the seeds' dashboard
        ([H, H, U], D),
        ([H, U], U),
        ([U], U),
        ([U, N, N, N], U),
    ],
)
def test_the_system_is_as_healthy_as_its_tools(statuses, system):
    assert system_status(statuses) is system


@pytest.mark.parametrize(
    ("share", "text"), [(1, "100 %"), (0.95, "95 %"), (0.94999, "94.99 %"), (0, "0 %"), (0.9999999, "99.99 %")]
)
def test_a_percentage_is_never_rounded_up_to_a_threshold_that_was_missed(share, text):
    assert percent(share) == text
