import pytest

from switchgear.breaker import Outcome, Permit, Result, outcome_of
from switchgear_schemas.policy import BreakerPolicy

DEFAULT = BreakerPolicy()


@pytest.mark.parametrize(
    ("status", "error_class", "outcome"),
    [
        ("success", None, Outcome.SUCCESS),
        ("error", None, Outcome.FAILURE),
        ("error", "unknown", Outcome.FAILURE),
        ("error", "transport", Outcome.FAILURE),
        ("error", "server", Outcome.FAILURE),
        ("error", "rate_limited", Outcome.FAILURE),
        ("timeout", None, Outcome.FAILURE),
        ("timeout", "timeout", Outcome.FAILURE),
        ("error", "tool", Outcome.SUCCESS),
        ("error", "invalid_input", Outcome.SUCCESS),
        ("error", "auth", Outcome.IGNORED),
        ("error", "cancelled", Outcome.IGNORED),
        ("timeout", "cancelled", Outcome.IGNORED),
        ("error", "policy", Outcome.IGNORED),
        ("success", "policy", Outcome.IGNORED),
        ("success", "server", Outcome.SUCCESS),
        ("cancelled", "cancelled", Outcome.IGNORED),
        ("cancelled", None, Outcome.IGNORED),
        ("cancelled", "transport", Outcome.IGNORED),
        ("rejected", None, Outcome.IGNORED),
    ],
)
def test_what_counts_by_default(status, error_class, outcome):
    assert outcome_of(status, error_class, DEFAULT) is outcome


def test_the_policy_chooses_what_counts():
    policy = BreakerPolicy(counted_error_classes={"tool", "auth"})
    assert outcome_of("error", "tool", policy) is Outcome.FAILURE
    assert outcome_of("error", "auth", policy) is Outcome.FAILURE
    assert outcome_of("timeout", None, policy) is Outcome.IGNORED
    assert outcome_of("error", "invalid_input", policy) is Outcome.SUCCESS
    giving_up = BreakerPolicy(counted_error_classes={"cancelled"})
    assert outcome_of("cancelled", None, giving_up) is Outcome.FAILURE
    assert outcome_of("error", "cancelled", giving_up) is Outcome.FAILURE


def test_results_and_permits_are_values():
    assert Result(Outcome.FAILURE, 1.0) == Result(outcome=Outcome.FAILURE, duration_ms=1.0)
    with pytest.raises(AttributeError):
        Permit("c", 0).generation = 1
    assert not Permit("c", 0).probe
    assert Permit("c", 0, "0.1").probe
