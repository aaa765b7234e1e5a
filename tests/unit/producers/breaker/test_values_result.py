import pytest

from switchgear.breaker import BreakerPermit, Result, ResultKind, result_kind
from switchgear_schemas.policy import BreakerPolicy
from tests.support.table import table

DEFAULT = BreakerPolicy()


@table(
    ("status", "error_class", "outcome"),
    [
        ("success", None, ResultKind.SUCCESS),
        ("error", None, ResultKind.FAILURE),
        ("error", "unknown", ResultKind.FAILURE),
        ("error", "transport", ResultKind.FAILURE),
        ("error", "server", ResultKind.FAILURE),
        ("error", "rate_limited", ResultKind.FAILURE),
        ("timeout", None, ResultKind.FAILURE),
        ("timeout", "timeout", ResultKind.FAILURE),
        ("error", "tool", ResultKind.SUCCESS),
        ("error", "invalid_input", ResultKind.SUCCESS),
        ("error", "auth", ResultKind.IGNORED),
        ("error", "cancelled", ResultKind.IGNORED),
        ("timeout", "cancelled", ResultKind.IGNORED),
        ("error", "policy", ResultKind.IGNORED),
        ("success", "policy", ResultKind.IGNORED),
        ("success", "server", ResultKind.SUCCESS),
        ("cancelled", "cancelled", ResultKind.IGNORED),
        ("cancelled", None, ResultKind.IGNORED),
        ("cancelled", "transport", ResultKind.IGNORED),
        ("rejected", None, ResultKind.IGNORED),
        ("overdue", None, ResultKind.OVERDUE),
        ("overdue", "timeout", ResultKind.OVERDUE),
    ],
)
def test_the_default_policy_counts_these_statuses_and_error_classes(status, error_class, outcome):
    assert result_kind(status, error_class, DEFAULT) is outcome


def test_the_policy_chooses_which_error_classes_count():
    policy = BreakerPolicy(counted_error_classes={"tool", "auth"})
    assert result_kind("error", "tool", policy) is ResultKind.FAILURE
    assert result_kind("error", "auth", policy) is ResultKind.FAILURE
    assert result_kind("timeout", None, policy) is ResultKind.IGNORED
    assert result_kind("error", "invalid_input", policy) is ResultKind.SUCCESS
    giving_up = BreakerPolicy(counted_error_classes={"cancelled"})
    assert result_kind("cancelled", None, giving_up) is ResultKind.FAILURE
    assert result_kind("error", "cancelled", giving_up) is ResultKind.FAILURE


def test_results_and_permits_are_values():
    assert Result(ResultKind.FAILURE, 1.0) == Result(kind=ResultKind.FAILURE, duration_ms=1.0)
    with pytest.raises(AttributeError):
        BreakerPermit("c", 0).generation = 1
    assert not BreakerPermit("c", 0).probe
    assert BreakerPermit("c", 0, "0.1").probe
