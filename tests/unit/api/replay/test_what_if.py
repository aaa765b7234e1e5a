from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_api.replay.what_if import WhatIf
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import Execution

START = datetime(2026, 11, 26, tzinfo=UTC)
POLICY = BreakerPolicy(consecutive_failures=2, minimum_reporters=1, wait_duration_in_open_state_s=60)


def calls(pattern, every_s=10.0, **more):
    """One call for each letter: ``x`` failed, ``.`` succeeded."""
    return [
        Execution(
            "web", "error" if each == "x" else "success", error_class="server" if each == "x" else None, emitter_id="e",
            execution_time_ms=100, input_tokens=10, cost_usd=0.5, recorded_at=START + timedelta(seconds=every_s * number), **more,
        )
        for number, each in enumerate(pattern)
    ]  # fmt: skip


def fold(pattern, policy=POLICY):
    return WhatIf(lambda _: policy).run(calls(pattern))


def test_real_outage_saves_failed_calls_their_tokens_and_their_money():
    found = fold("xxxxxx")
    assert (found["opens"], found["false_opens"]) == (1, 0)
    assert (found["calls_saved"], found["calls_lost"]) == (4, 0)
    assert (found["tokens_saved"], found["usd_saved"]) == (40, 2.0)
    assert found["transitions"][0]["state"] == "open"
    assert found["minutes_open"] == round(40 / 60, 3)


def test_opening_after_which_the_calls_had_succeeded_is_false():
    found = fold("xx....")
    assert (found["opens"], found["false_opens"], found["calls_lost"], found["calls_saved"]) == (1, 1, 4, 0)


def test_policy_that_never_opens_saves_nothing():
    found = fold("xxxxxx", POLICY.model_copy(update={"consecutive_failures": 50}))
    assert (found["opens"], found["calls_saved"], found["minutes_open"], found["transitions"]) == (0, 0, 0, [])


def test_probe_that_succeeds_ends_the_time_open():
    found = fold("xx" + "x" * 6 + "." * 20)
    assert found["opens"] == 1
    assert 1 <= found["minutes_open"] <= 1.5
    assert found["transitions"][-1]["state"] == "closed"


def test_metrics_only_reports_what_would_have_opened_and_refuses_nothing():
    found = fold("xxxxxx", POLICY.model_copy(update={"mode": "metrics_only"}))
    assert (found["opens"], found["calls_saved"]) == (0, 0)
    assert found["would_open"] >= 1


@pytest.mark.parametrize("scope", ["user", "session"])
def test_opening_of_one_user_or_session_is_judged_by_its_own_refused_calls(scope):
    policy = POLICY.model_copy(update={"scope": scope, "wait_duration_in_open_state_s": 600})
    false = calls("xx....", **{f"{scope}_id": "one"})
    real = calls("xx" + "x" * 9, **{f"{scope}_id": "two"})
    found = WhatIf(lambda _: policy).run(sorted([*false, *real], key=lambda each: each.recorded_s))
    assert (found["opens"], found["false_opens"]) == (2, 1)
    assert (found["calls_lost"], found["calls_saved"]) == (4, 9)
