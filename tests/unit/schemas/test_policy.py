"""BreakerPolicy: defaults are the documented ones, and what can't work is refused with the reason."""

import math
from typing import get_args

import pytest
from pydantic import ValidationError

from switchgear_schemas import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from switchgear_schemas.enums import CALLER_ERRORS, DEFAULT_COUNTED, ErrorClass
from switchgear_schemas.policy import FAMILY_DEFAULT, LOCAL_FAMILY_DEFAULT, Cusum
from tests.support.table import table


def test_the_local_default_opens_after_five_failures_in_a_row_or_by_a_cusum_and_waits_a_minute():
    assert LOCAL_DEFAULT.consecutive_failures == 5
    assert LOCAL_DEFAULT.cusum is not None
    assert (LOCAL_DEFAULT.cusum.tolerable_failure_rate, LOCAL_DEFAULT.cusum.broken_failure_rate) == (0.3, 0.8)
    assert LOCAL_DEFAULT.wait_duration_in_open_state_s == 60
    assert LOCAL_DEFAULT.permitted_number_of_calls_in_half_open_state == 1
    assert LOCAL_DEFAULT.success_threshold_to_close == 1


def test_the_fleet_default_opens_by_rate_and_cusum_with_two_reporters():
    assert FLEET_DEFAULT.consecutive_failures is None
    assert FLEET_DEFAULT.failure_rate_threshold == 0.5
    assert FLEET_DEFAULT.minimum_number_of_calls == 20
    assert FLEET_DEFAULT.minimum_reporters == 2
    assert FLEET_DEFAULT.cusum is not None
    assert (FLEET_DEFAULT.cusum.tolerable_failure_rate, FLEET_DEFAULT.cusum.broken_failure_rate) == (0.10, 0.50)


def test_a_rate_of_slow_calls_needs_no_duration():
    policy = BreakerPolicy(slow_call_rate_threshold=0.5)
    assert policy.slow_call_duration_threshold_ms is None


@table("classes", [{"tool"}, {"invalid_input"}, {"auth"}, {"cancelled"}, {"policy"}])
def test_errors_that_say_nothing_about_the_tools_health_do_not_count(classes):
    assert not classes & BreakerPolicy().counted_error_classes


def test_every_class_counts_or_is_a_caller_error_or_cancelled():
    assert not DEFAULT_COUNTED & CALLER_ERRORS
    assert DEFAULT_COUNTED | CALLER_ERRORS | {"cancelled"} == set(get_args(ErrorClass))


@table(
    ("wrong", "says"),
    [
        ({"failure_rate_treshold": 0.5}, "failure_rate_treshold"),
        ({"failure_rate_threshold": 50}, "failure_rate_threshold"),
        ({"consecutive_failures": 0}, "consecutive_failures"),
        ({"slow_call_duration_threshold_ms": 100}, "slow_call_rate_threshold"),
        ({"max_wait_duration_in_open_state_s": 10}, "max_wait_duration_in_open_state_s"),
        ({"cusum": {"tolerable_failure_rate": 0.5, "broken_failure_rate": 0.5}}, "broken_failure_rate"),
        ({"max_wait_duration_in_half_open_state_s": 0}, "max_wait_duration_in_half_open_state_s"),
        ({"recovery_ramp": []}, "recovery_ramp"),
        ({"recovery_ramp": [0.1] * 21}, "recovery_ramp"),
        ({"recovery_ramp": [0.1, 1]}, "rise from step to step, such as [0.1, 0.25, 0.5]"),
        ({"recovery_ramp": [0.5, 0.25]}, "rise from step to step"),
        ({"recovery_ramp": [0.5, 0.5]}, "rise from step to step"),
        ({"recovery_ramp": [0, 0.5]}, "recovery_ramp.0"),
        ({"recovery_ramp": 0.5}, "recovery_ramp"),
        ({"retry_after_ramp": []}, "retry_after_ramp"),
        (
            {"retry_after_ramp": [0.5, 0.25]},
            "retry_after_ramp takes shares between 0 and 1 that rise from step to step",
        ),
        ({"recovery_ramp_step_s": 0}, "recovery_ramp_step_s"),
        ({"mode": "on"}, "mode"),
        ({"scope": "planet"}, "scope"),
        ({"consecutive_auth_failures": 0}, "consecutive_auth_failures"),
        ({"target": ""}, "takes the name of an argument, or up to 5 names with dots between them"),
        ({"target": "url."}, "such as url.host"),
        ({"target": "url..host"}, "target"),
        ({"target": "a.b.c.d.e.host"}, "target"),
        ({"target": "url.höst"}, "target"),
        ({"target": "url.host\n"}, "target"),
        ({"target": "0.host"}, "target"),
        ({"target": "x" * 65}, "target"),
        ({"target": ["url"]}, "target"),
        ({"target": True}, "target"),
        ({"target": "url.host", "scope": "user"}, "target and scope user exclude each other"),
        ({"counted_error_classes": ["weather"]}, "counted_error_classes"),
    ],
)
def test_a_wrong_policy_is_refused_and_the_key_named(wrong, says):
    with pytest.raises(ValidationError) as error:
        BreakerPolicy.model_validate(wrong)
    assert says in str(error.value)


@table("target", [None, "url", "url.host", "request.url.host", "a.b.c.d.e", "x-id", "x" * 64])
def test_a_target_is_an_argument_or_a_part_of_one(target):
    assert BreakerPolicy(target=target).target == target


def test_three_rejected_credentials_in_a_row_open_by_default_and_the_rule_may_be_off():
    assert {each.consecutive_auth_failures for each in (LOCAL_DEFAULT, FLEET_DEFAULT)} == {3}
    assert BreakerPolicy(consecutive_auth_failures=None).consecutive_auth_failures is None


def test_the_fleet_alone_returns_by_degrees_after_retry_after_by_default():
    assert FLEET_DEFAULT.retry_after_ramp == FAMILY_DEFAULT.retry_after_ramp == (0.1, 0.25, 0.5)
    assert (
        LOCAL_DEFAULT.retry_after_ramp
        is LOCAL_FAMILY_DEFAULT.retry_after_ramp
        is BreakerPolicy().retry_after_ramp
        is None
    )


def test_a_ramp_is_off_by_default_and_its_shares_may_be_a_list():
    assert BreakerPolicy().recovery_ramp is None
    assert BreakerPolicy().recovery_ramp_step_s == 10
    ramp = BreakerPolicy.model_validate({"recovery_ramp": [0.1, 0.25, 0.5]})
    assert ramp.recovery_ramp == (0.1, 0.25, 0.5)
    assert BreakerPolicy.model_validate_json(ramp.model_dump_json()) == ramp


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in (BreakerPolicy, Cusum) for name in kind.model_fields]
)
def test_no_value_is_infinite_or_no_number(kind, name, value):
    with pytest.raises(ValidationError) as caught:
        kind.model_validate({name: value})
    assert name in {str(part) for each in caught.value.errors() for part in each["loc"]} | set(
        str(caught.value).split()
    )
