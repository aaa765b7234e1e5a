"""The state machine: traces of random calls, and the arithmetic of its rules."""

# ruff: noqa: INP001, S311 - a part of a script; its random numbers are test data

from __future__ import annotations

import json
import random
from typing import Any, get_args

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind, result_kind
from switchgear.breaker.cusum import solve
from switchgear.breaker.ramp import admits, phase_of
from switchgear.breaker.states import wait_s
from switchgear.breaker.values import family_result_kind
from switchgear_schemas.enums import ErrorClass, Status
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT, BreakerPolicy, Cusum

KINDS = {kind.name.lower(): kind for kind in ResultKind}
CUSUMS = [(0.1, 0.5, 1_000_000), (0.05, 0.2, 10_000), (0.01, 0.9, 1000), (0.3, 0.4, 500)]


def answers() -> dict[str, Any]:
    """Return what the breaker does."""
    classes, statuses = get_args(ErrorClass), get_args(Status)
    return {
        "traces": [trace(seed) for seed in range(30)],
        "defaults": [json.loads(policy.model_dump_json()) for policy in (LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT)],
        "cusum": [
            [
                *rule,
                _solved(
                    Cusum(
                        tolerable_failure_rate=rule[0], broken_failure_rate=rule[1], calls_between_false_opens=rule[2]
                    )
                ),
            ]
            for rule in CUSUMS
        ],
        "waits": [
            [n, wait_s("tool", n, BreakerPolicy(backoff_multiplier=2, jitter=0.5, wait_duration_in_open_state_s=3))]
            for n in range(1, 9)
        ],
        "admits": [
            [n, share, phase_of("p@host"), admits(n, share, phase_of("p@host"))]
            for n in range(1, 40)
            for share in (0.1, 1 / 3)
        ],
        "kinds": [
            [
                status,
                error_class,
                result_kind(status, error_class, LOCAL_DEFAULT).name.lower(),
                family_result_kind(status, error_class, LOCAL_FAMILY_DEFAULT).name.lower(),
            ]
            for status in statuses
            for error_class in (None, *classes)
        ],
    }


def random_policy(rng: random.Random) -> dict[str, Any]:
    """Return some rules with thresholds that a short trace can reach."""
    policy: dict[str, Any] = {
        "wait_duration_in_open_state_s": rng.choice([2, 5, 7.5]),
        "minimum_number_of_calls": rng.choice([3, 5, 8]),
    }
    rules = rng.sample(["streak", "count", "rate", "slow", "tokens", "cusum"], rng.choice([1, 2, 3]))
    if "streak" in rules:
        policy["consecutive_failures"] = rng.choice([2, 3, 5])
    if "count" in rules:
        policy["failure_count"] = rng.choice([3, 6])
    if "rate" in rules:
        policy["failure_rate_threshold"] = rng.choice([0.3, 0.5, 0.9])
    if "slow" in rules:
        policy |= {"slow_call_duration_threshold_ms": 100, "slow_call_rate_threshold": rng.choice([0.4, 1])}
    if "tokens" in rules:
        policy["wasted_tokens"] = 500
    if "cusum" in rules:
        policy["cusum"] = {
            "tolerable_failure_rate": 0.1,
            "broken_failure_rate": 0.6,
            "calls_between_false_opens": rng.choice([50, 1000]),
        }
    if rng.random() < 0.4:
        policy |= {"sliding_window_type": "count", "sliding_window_size": rng.choice([8, 12])}
    else:
        policy["sliding_window_size"] = rng.choice([2, 3.3, 10])
        policy["sliding_window_panes"] = rng.choice([None, 1, 4])
    if ("rate" in rules or "slow" in rules) and rng.random() < 0.5:
        policy["half_open_decision"] = "rate"
    policy["permitted_number_of_calls_in_half_open_state"] = rng.choice([1, 2, 3])
    policy["success_threshold_to_close"] = rng.choice([1, 2, 3])
    policy["max_wait_duration_in_half_open_state_s"] = rng.choice([1, 4])
    policy |= rng.choice([{}, {"backoff_multiplier": 2, "jitter": 0.3, "max_wait_duration_in_open_state_s": 20}])
    policy |= rng.choice(
        [
            {},
            {"recovery_ramp": [0.2, 0.6], "recovery_ramp_step_s": 3},
            {"retry_after_ramp": [0.25], "recovery_ramp_step_s": 2},
        ]
    )
    policy["consecutive_auth_failures"] = rng.choice([None, 1, 2, 3])
    policy |= rng.choice([{}, {}, {"minimum_tools": 2}, {"minimum_reporters": 2}, {"mode": "metrics_only"}])
    return policy


def trace(seed: int) -> dict[str, Any]:
    """Play random calls on a breaker. Of each step, keep what happened and what the breaker says."""
    rng = random.Random(seed)
    given = random_policy(rng)
    breaker = Breaker("traced", BreakerPolicy.model_validate(given), 0.0)
    now, open_permits, steps = 0.0, {}, []
    failing = denying = False
    overdue: dict[str, float] = {}
    for number in range(60):
        now = round(now + rng.choice([0, 0.1, 0.4, 1.0, rng.random() * 3]), 3)
        failing = failing if rng.random() < 0.9 else not failing
        denying = denying if rng.random() < 0.9 else not denying
        if open_permits and rng.random() < 0.45:
            name = rng.choice(list(open_permits))
            permit = open_permits.pop(name)
            kind = "overdue" if name not in overdue and rng.random() < 0.2 else None
            if kind is not None:
                open_permits[name] = permit
                overdue[name] = rng.choice([60, 100, 110])
            if kind is None and rng.random() < 0.1:
                breaker.release(permit, now)
                step: list[Any] = ["release", now, name]
            else:
                ended = (
                    rng.choice(["failure"] * 5 + ["success"])
                    if failing
                    else rng.choice(["success"] * 6 + ["failure"] + ["ignored"] * (8 if denying else 1))
                )
                took_ms = rng.choice([5, 100, 150]) + rng.choice([0, 1200]) * (name in overdue)
                result = Result(
                    kind=KINDS[kind or ended],
                    duration_ms=took_ms if kind is None else overdue[name],
                    tokens=rng.choice([0, 60]),
                    reporter=rng.choice("ab"),
                    retry_after_s=rng.choice([None, None, 4]),
                    tool=rng.choice("xyz"),
                    overdue_ms=overdue.get(name) if kind is None else None,
                    credential=rng.choice(["", "k", "l", "m"]) if ended == "ignored" and kind is None else "",
                )
                breaker.record(now, result, permit)
                step = [
                    "record",
                    now,
                    name,
                    kind or ended,
                    result.duration_ms,
                    result.tokens,
                    result.reporter,
                    result.retry_after_s,
                    result.tool,
                    result.overdue_ms,
                    result.credential,
                ]
        else:
            answer = breaker.try_acquire(now)
            name = f"p{number}"
            if isinstance(answer, BreakerPermit):
                open_permits[name] = answer
                step = ["acquire", now, name, True]
            else:
                assert isinstance(answer, BreakerRejection)
                step = ["acquire", now, name, answer.retry_after_s]
        counts = breaker.counts(now)
        cause = breaker.cause
        steps.append(
            [
                step,
                breaker.state,
                breaker.open_until,
                breaker.generation,
                breaker.attempt,
                breaker.admitted_share,
                breaker.remaining_probes,
                [
                    counts.calls,
                    counts.failed,
                    counts.slow,
                    counts.ignored,
                    counts.rejected,
                    counts.wasted_tokens,
                    counts.consecutive_failures,
                ],
                None if cause is None else [cause.rule, cause.value, cause.threshold, cause.sample, cause.reason],
            ]
        )
    return {"policy": given, "steps": steps}


def _solved(rule: Cusum) -> list[float]:
    found = solve(rule)
    return [found.up, found.down, found.height, found.unit]
