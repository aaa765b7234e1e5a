from __future__ import annotations

import pytest

from switchgear_cli.operate.policy_values import policy_from
from switchgear_schemas.errors import WrongUsageError
from tests.support.table import table


def _named(*assignments: str) -> dict[str, object]:
    return policy_from(assignments, None).model_dump(exclude_unset=True)


@table(
    ("assignment", "values"),
    [
        ("wait_duration_in_open_state_s=30", {"wait_duration_in_open_state_s": 30.0}),
        ("mode=metrics_only", {"mode": "metrics_only"}),
        ("consecutive_failures=off", {"consecutive_failures": None}),
        ("cusum=off", {"cusum": None}),
        ("cusum.broken_failure_rate=0.2", {"cusum": {"broken_failure_rate": 0.2}}),
        ("honor_retry_after=false", {"honor_retry_after": False}),
        ("retry_after_ramp=off", {"retry_after_ramp": None}),
        ("retry_after_ramp=[0.2, 0.6]", {"retry_after_ramp": (0.2, 0.6)}),
        ("fallback=a,b", {"fallback": ("a", "b")}),
        ('fallback=["a"]', {"fallback": ("a",)}),
        ("counted_error_classes=timeout, server", {"counted_error_classes": frozenset({"timeout", "server"})}),
    ],
)
def test_a_policy_holds_what_was_assigned_and_nothing_else(assignment, values):
    assert _named(assignment) == values


def test_parts_of_cusum_add_up():
    assert _named("cusum.broken_failure_rate=0.4", "cusum.tolerable_failure_rate=0.2") == {
        "cusum": {"broken_failure_rate": 0.4, "tolerable_failure_rate": 0.2}
    }


def test_a_file_gives_values_and_what_is_assigned_goes_over_them(tmp_path):
    file = tmp_path / "values.toml"
    file.write_text("minimum_reporters = 3\nconsecutive_failures = 9\n")
    policy = policy_from(["consecutive_failures=2"], file)
    assert policy.model_dump(exclude_unset=True) == {"minimum_reporters": 3, "consecutive_failures": 2}


@table(
    ("assignments", "message"),
    [
        ([], "No value is named"),
        (["minimum_reporters"], "is not key=value"),
        (["=3"], "is not key=value"),
        (["minimum_reporters="], "is not key=value"),
        (["wait_duration=3"], "unknown key wait_duration. Did you mean wait_duration_in_open_state_s?"),
        (["cusum.broken_rate=3"], "unknown key cusum.broken_rate. Did you mean cusum.broken_failure_rate?"),
        (["policy.mode=enforce"], "unknown key policy.mode"),
        (["minimum_reporters=0"], "minimum_reporters: Input should be greater than or equal to 1 (got 0)"),
        (["minimum_reporters=many"], "minimum_reporters: Input should be a valid integer"),
        (["minimum_reporters=off"], "minimum_reporters can't be turned off"),
        (["slow_call_duration_threshold_ms=200"], "needs slow_call_rate_threshold"),
        (["mode=closed"], "mode: Input should be 'enforce'"),
        (["jitter=0.1", "jitter=0.2"], "jitter is given twice"),
        (['cusum={"broken_failure_rate": 0.3, "broken_failure_rate": 0.4}'], "broken_failure_rate is given twice"),
        (["jitter=" + "[" * 100_000], "nested too deeply"),
        (["jitter=" + "9" * 5000], "jitter: Input should be a valid number"),
        (["wait_duration_in_open_state_s=Infinity"], "Input should be a finite number (got inf)"),
        (["consecutive_failures=true"], "consecutive_failures: Input should be a valid integer (got True)"),
    ],
)
def test_an_invalid_value_is_reported_with_its_key_before_anything_is_sent(assignments, message):
    with pytest.raises(WrongUsageError) as caught:
        policy_from(assignments, None)
    assert message in str(caught.value)
    assert "[default]" not in str(caught.value)


def test_a_missing_policy_file_is_wrong_usage(tmp_path):
    with pytest.raises(WrongUsageError, match="There is no policy file"):
        policy_from([], tmp_path / "none.toml")
