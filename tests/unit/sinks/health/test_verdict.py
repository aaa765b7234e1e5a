"""The one verdict on a tool, as a pure function of its calls and its circuit."""

from switchgear_schemas.health import HealthStatus
from switchgear_sinks.health.verdict import Counted, judge, needs_attention, system_status
from tests.support.table import table

H, D, U, N = HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY, HealthStatus.UNKNOWN


@table(
    ("state", "counted", "kind"),
    [
        ("closed", Counted(calls=10, errors=1), None),
        ("closed", Counted(calls=10, errors=2), None),
        ("closed", Counted(calls=10, errors=5), "down"),
        ("closed", Counted(calls=20, errors=5), "down"),
        ("closed", Counted(calls=4, errors=4), None),
        ("open", Counted(calls=2, errors=2), "down"),
        ("half_open", Counted(), "down"),
        ("unknown", Counted(), None),
        (None, Counted(calls=10, errors=5), "down"),
        ("open", Counted(calls=20, errors=4, caller_errors=9), "rejects_arguments"),
        ("open", Counted(calls=1000, errors=4, caller_errors=9), "down"),
        ("closed", Counted(calls=1000, caller_errors=49), None),
        ("closed", Counted(calls=1000, caller_errors=50), "rejects_arguments"),
        ("closed", Counted(calls=20, caller_errors=4), None),
        ("closed", Counted(calls=20, errors=9, caller_errors=9), "down"),
    ],
)
def test_kind_of_failure_needs_enough_calls_and_says_whose_fault_it_is(state, counted, kind):
    assert judge(counted, state).kind == kind


@table(
    ("counted", "average_ms", "status"),
    [
        (Counted(calls=4), 0, N),
        (Counted(calls=100, errors=5), 2000, H),
        (Counted(calls=100, errors=6), 0, D),
        (Counted(calls=100, errors=20), 0, D),
        (Counted(calls=100, errors=21), 0, U),
        (Counted(calls=5), 2001, D),
        (Counted(calls=5), 5001, U),
        (Counted(calls=100, errors=1, caller_errors=60, cancelled=20), 0, H),
        (Counted(calls=100, errors=1, ignored=94), 0, D),
        (Counted(calls=100, errors=1, ignored=96), 0, N),
    ],
)
def test_status_is_the_worse_of_success_rate_and_latency(counted, average_ms, status):
    assert judge(counted, "closed", average_ms=average_ms).status is status


def test_tool_that_a_report_calls_unhealthy_by_its_errors_is_down_in_the_console():
    for errors in range(101):
        verdict = judge(Counted(calls=100, errors=errors), "closed")
        assert (verdict.kind == "down") == (verdict.status is U), errors


@table(
    ("state", "counted", "needed"),
    [
        ("closed", Counted(calls=100), False),
        ("metrics_only", Counted(), False),
        ("half_open", Counted(), True),
        ("closed", Counted(calls=100, errors=6), True),
        ("closed", Counted(calls=100, caller_errors=6), True),
        ("closed", Counted(calls=100, cancelled=49), False),
        ("closed", Counted(calls=100, cancelled=50), True),
        ("closed", Counted(calls=4, cancelled=4), False),
    ],
)
def test_tool_needs_attention_if_there_is_something_to_do(state, counted, needed):
    assert needs_attention(counted, state, judge(counted, state).status) is needed


def test_rates_leave_out_caller_errors_and_calls_that_were_cancelled_or_are_ignored():
    counted = Counted(calls=27, errors=5, caller_errors=8, cancelled=2, ignored=7)
    assert (counted.error_rate, counted.success_rate) == (0.5, 0.5)
    idle = Counted(calls=3, cancelled=3)
    assert (idle.error_rate, idle.success_rate) == (0, 0)


@table(
    ("statuses", "system"),
    [
        ([], N),
        ([N, N], N),
        ([H, N], H),
        ([H, D], D),
        ([H] * 10 + [D] * 2 + [U], D),  # the dashboard of the reference documents
        ([H, H, U], D),
        ([H, U], U),
        ([U], U),
        ([U, N, N, N], U),
    ],
)
def test_system_status_follows_from_the_statuses_of_its_tools(statuses, system):
    assert system_status(statuses) is system
