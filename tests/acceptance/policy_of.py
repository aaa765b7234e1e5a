"""A scenario's ``config`` as a BreakerPolicy. An unknown key makes the scenario fail."""

from __future__ import annotations

import math
from typing import Any

from switchgear_schemas.policy import BreakerPolicy

NEVER = 10**9
"""A minimum number of calls that no scenario reaches."""
PLAIN = {
    "consecutive_failures": "consecutive_failures",
    "failure_count": "failure_count",
    "cusum": "cusum",
    "open_s": "wait_duration_in_open_state_s",
    "backoff": "backoff_multiplier",
    "backoff_multiplier": "backoff_multiplier",
    "max_open_s": "max_wait_duration_in_open_state_s",
    "jitter": "jitter",
    "wasted_tokens": "wasted_tokens",
    "min_reporters": "minimum_reporters",
    "minimum_reporters": "minimum_reporters",
    "honor_retry_after": "honor_retry_after",
    "mode": "mode",
    "min_calls": "minimum_number_of_calls",
    "failure_rate": "failure_rate_threshold",
    "slow_ms": "slow_call_duration_threshold_ms",
    "slow_rate": "slow_call_rate_threshold",
    "ramp": "recovery_ramp",
    "ramp_step_s": "recovery_ramp_step_s",
    "retry_after_ramp": "retry_after_ramp",
}
ELSEWHERE = {"window", "half_open", "cmp", "classify", "evaluate", "slow"}
"""The keys that are read below or by a player."""
HALF_OPEN = {
    "permits": "permitted_number_of_calls_in_half_open_state",
    "decide": "half_open_decision",
    "close_after": "success_threshold_to_close",
    "max_wait_s": "max_wait_duration_in_half_open_state_s",
}


def policy_of(config: dict[str, Any], **more: Any) -> BreakerPolicy:
    """Return the policy. ``cmp: ">"`` becomes ``>=`` with the next larger number."""
    unknown = set(config) - set(PLAIN) - ELSEWHERE
    assert not unknown, f"the adapter does not know the config key(s) {sorted(unknown)}"
    values: dict[str, Any] = {PLAIN[key]: value for key, value in config.items() if key in PLAIN and value is not None}
    values |= _window(config.get("window"))
    half_open = config.get("half_open", {})
    assert set(half_open) <= set(HALF_OPEN), f"the adapter does not know {sorted(set(half_open) - set(HALF_OPEN))}"
    values |= {HALF_OPEN[key]: value for key, value in half_open.items() if value is not None}
    if values.get("slow_call_rate_threshold") is None or values.get("slow_call_duration_threshold_ms") is None:
        values.pop("slow_call_rate_threshold", None)
        values.pop("slow_call_duration_threshold_ms", None)
    if config.get("cmp", ">=") == ">":
        _exceed(values)
    else:
        assert config.get("cmp", ">=") == ">="
    values.setdefault("minimum_number_of_calls", 1)
    if values.get("sliding_window_type") == "count":
        values["minimum_number_of_calls"] = min(values["minimum_number_of_calls"], values["sliding_window_size"])
    has_rate = "failure_rate_threshold" in values or "slow_call_rate_threshold" in values
    if values.get("half_open_decision") == "rate" and not has_rate:
        values |= {"failure_rate_threshold": 0.5, "minimum_number_of_calls": NEVER}
    return BreakerPolicy.model_validate(values | more)


def _window(window: dict[str, Any] | None) -> dict[str, Any]:
    if window is None:
        return {}
    kind = window["type"]
    if kind == "count":
        sizes = [window[key] for key in ("size", "size_n", "size_calls", "calls", "n") if key in window]
        assert len(sizes) == 1, f"a count window has one size: {window}"
        size = sizes[0]
        return {"sliding_window_type": "count", "sliding_window_size": size}
    size = window["size_s"]
    if kind == "tumbling":
        return {"sliding_window_size": size, "sliding_window_panes": 1}
    assert kind == "time", f"the adapter does not know the window type {kind}"
    panes = round(size / window["bucket_s"]) if "bucket_s" in window else None
    return {"sliding_window_size": size, "sliding_window_panes": panes}


def _exceed(values: dict[str, Any]) -> None:
    for name in ("consecutive_failures", "failure_count"):
        if name in values:
            values[name] += 1
    for name in ("failure_rate_threshold", "slow_call_rate_threshold"):
        if name in values and values[name] < 1:  # more than all is never: Sentinel takes 1.0 as >=
            values[name] = math.nextafter(values[name], 2)
