"""Why a circuit is in its state, as one sentence or in brief.

Records may be models, the breaker's structs or decoded JSON. This module needs neither pydantic nor the breaker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Part = Any
"""A model, a struct or decoded JSON; None if the record has none."""


class _Facts(NamedTuple):
    """The fields of a cause. A field that an older record does not have is None."""

    rule: str
    value: float | None
    threshold: float | None
    sample: int | None
    failed: int | None
    window_s: float | None
    slow_ms: float | None
    tolerable_rate: float | None
    calls_between: float | None
    actor: str
    reason: str
    state: str


def explain(cause: Part, counts: Part = None, *, state: str | None = None) -> str:
    """Return why a circuit is in its state.

    Every number in the sentence comes from the record. Percentages are rounded down, so that they do not seem to reach a limit.

    Args:
        cause: The record's ``cause``.
        counts: The record's ``counts``. Records of older versions have the failed calls only there.
        state: The record's ``state``, which shows the command that an operator gave.

    Returns:
        A sentence without a capital letter and a full stop, for tables and brackets. Empty if the record has no cause.
    """
    actor, reason = str(_get(cause, "actor") or ""), str(_get(cause, "reason") or "")
    rule = str(_get(cause, "rule") or ("command" if actor or reason else ""))
    if not rule:  # a policy's mode can start a circuit in another state than closed, without a cause
        return f"the policy's mode is {str(state).replace('_', ' ')}" if state in _PINNED else ""
    facts = _Facts(
        rule,
        _get(cause, "value"),
        _get(cause, "threshold"),
        _get(cause, "sample"),
        _failed(cause, counts),
        _get(cause, "window_s"),
        _get(cause, "slow_call_duration_threshold_ms"),
        _get(cause, "tolerable_failure_rate"),
        _get(cause, "calls_between_false_opens"),
        actor,
        reason,
        state or "",
    )
    breach = _BREACHES.get(rule)
    if breach is None:
        return _OTHERS.get(rule, _unknown)(facts)
    reporters, tools = _get(cause, "reporters"), _get(cause, "tools")
    prefix = f"{facts.reason}: " if facts.reason else ""
    suffix = f"; reported by {_at_least(reporters, 'process', 'processes')}" if reporters else ""
    suffix += f"; of {_at_least(tools, 'tool', 'tools')}" if tools else ""
    return f"{prefix}{breach(facts)}{suffix}"


def in_brief(cause: Part) -> str:
    """Return why a circuit is in its state, in the words of the record: for the text of a refusal. Empty if the record has no cause."""
    if cause is None:
        return ""
    rule, value, threshold = cause.rule, cause.value, cause.threshold
    if cause.actor:
        return f"{rule} by {cause.actor}{_because(cause)}"
    if value is None:
        return str(cause.reason or rule)
    reached = "" if threshold is None else f" reached {threshold:g}"
    return f"{rule} {value:g}{reached}" + (f" over {cause.sample} calls" if cause.sample else "")


def percent(share: float) -> str:
    """Return 0.9375 as ``93.75 %``, rounded down so that it does not seem to reach a limit."""
    text = f"{int(share * 10_000 + 1e-7) / 100:.2f}".rstrip("0").rstrip(".")
    return f"{text} %"


# -- rules that open a circuit


def _consecutive(facts: _Facts) -> str:
    number = _whole(facts.value)
    calls = "a call failed" if number == 1 else f"{_number(number)} calls in a row failed"
    return f"{calls}{_limit(facts.threshold)}"


def _failure_count(facts: _Facts) -> str:
    limit = "" if facts.threshold is None else f" (the limit is {_counted(_whole(facts.threshold), 'failed call')})"
    return f"{_of_calls(_whole(facts.value), facts)} failed{limit}"


def _failure_rate(facts: _Facts) -> str:
    failed = max(_part(facts), facts.failed or 0)  # if some count half, the share is less
    share = _of_calls(failed, facts) if facts.sample else "too many calls"
    return f"{share} failed{_share(facts)}"


def _slow_rate(facts: _Facts) -> str:
    return f"{_share_of_calls(facts)} {_slow(facts)}{_share(facts)}"


def _wasted_tokens(facts: _Facts) -> str:
    tokens = _counted(_whole(facts.value), "token")
    if facts.window_s is not None:
        return f"failed calls used {tokens} within {_seconds(facts.window_s)}{_limit(facts.threshold)}"
    among = f" among {_calls(facts.sample, facts)}" if facts.sample else ""
    return f"failed calls{among} used {tokens}{_limit(facts.threshold)}"


def _cusum(facts: _Facts) -> str:
    found = "more calls failed than a healthy tool's do"
    if facts.failed is not None and facts.sample:
        found = f"{_of_calls(facts.failed, facts)} failed"
    if facts.calls_between is None or facts.tolerable_rate is None:
        return found
    healthy = f"a healthy tool (at most {percent(facts.tolerable_rate)} failures)"
    return f"{found}; {healthy} gets that far less than once in {_number(int(facts.calls_between))} calls"


def _auth_failures(facts: _Facts) -> str:
    number = _whole(facts.value)
    found = "a credential was" if number == 1 else f"{_number(number)} different credentials in a row were"
    within = "" if facts.window_s is None else f" within {_seconds(facts.window_s)}"
    return f"{found} rejected{within}{_limit(facts.threshold)}"


# -- what closes it, opens it again, or changes nothing


def _probe_failed(facts: _Facts) -> str:
    return f"{_of_probes(_whole(facts.value), facts)} failed"


def _probe_slow(facts: _Facts) -> str:
    return f"{_of_probes(_whole(facts.value), facts)} {_slow(facts)}"


def _probe_succeeded(facts: _Facts) -> str:
    return f"{_of_probes(_whole(facts.value), facts)} succeeded{_and(facts)}"


def _probe_failure_rate(facts: _Facts) -> str:
    return f"{_of_probes(_part(facts), facts)} failed{_share(facts)}{_and(facts)}"


def _probe_slow_rate(facts: _Facts) -> str:
    return f"{_of_probes(_part(facts), facts)} {_slow(facts)}{_share(facts)}"


def _probes_ignored(facts: _Facts) -> str:
    ended = _counted(_whole(facts.value), "probe call")
    return f"{ended} ended without evidence about the tool's health, for instance cancelled"


def _half_open_timeout(facts: _Facts) -> str:
    within = "" if facts.threshold is None else f" within {_seconds(facts.threshold)}"
    if facts.sample:
        return f"{_counted(facts.sample, 'probe call')} came back{within}, too few to decide"
    return f"no probe call came back{within}"


def _recovery_ramp(facts: _Facts) -> str:
    if facts.value is None or facts.value >= 1:
        return "the recovery is over, and all calls are admitted"
    return f"{percent(facts.value)} of calls are admitted{_and(facts) or ' while the tool recovers'}"


def _recovery_failed(facts: _Facts) -> str:
    return f"{_failure_rate(facts)} while the tool recovered"


def _command(facts: _Facts) -> str:
    done = _COMMANDED.get(facts.state, "changed")
    return f"{done} by {facts.actor or 'an operator'}{_because(facts)}"


def _set_policy(facts: _Facts) -> str:
    return f"policy changed by {facts.actor or 'an operator'}{_because(facts)}"


def _policy(facts: _Facts) -> str:
    mode = facts.reason.removeprefix("mode ").replace("_", " ")
    return f"the policy's mode is {mode}" if mode else "the policy's mode changed"


def _lease_granted(facts: _Facts) -> str:
    return f"{facts.actor or 'a process'} may make a probe call"


def _asked(facts: _Facts) -> str:
    return f"published again, because {facts.actor or 'a process'} asked"


def _clock_set_back(facts: _Facts) -> str:
    return f"the broker's clock was {facts.value or 0:.0f} s ahead, and the circuit's times moved back with it"


def _unknown(facts: _Facts) -> str:
    """Return a sentence for a rule of a newer version or of another program."""
    words = facts.rule.replace("_", " ")
    if facts.value is not None and facts.threshold is not None:
        words += f": {facts.value:.4g}, the limit is {facts.threshold:.4g}"
    by = f" by {facts.actor}" if facts.actor else ""
    return f"{words}{by}{_because(facts)}"


_BREACHES: Final[dict[str, Callable[[_Facts], str]]] = {
    "consecutive_failures": _consecutive,
    "failure_count": _failure_count,
    "failure_rate": _failure_rate,
    "slow_call_rate": _slow_rate,
    "wasted_tokens": _wasted_tokens,
    "cusum": _cusum,
    "auth_failures": _auth_failures,
}
_OTHERS: Final[dict[str, Callable[[_Facts], str]]] = {
    "probe_failed": _probe_failed,
    "probe_slow": _probe_slow,
    "probe_succeeded": _probe_succeeded,
    "probe_failure_rate": _probe_failure_rate,
    "probe_slow_call_rate": _probe_slow_rate,
    "probes_ignored": _probes_ignored,
    "half_open_timeout": _half_open_timeout,
    "wait_elapsed": lambda _: "the wait is over, and a probe call tests the tool",
    "lease_granted": _lease_granted,
    "probe_returned": lambda _: "a probe call came back and decided nothing yet",
    "asked": _asked,
    "family_recovered": lambda _: "the family's circuit closed, and a probe call may test the tool at once",
    "clock_set_back": _clock_set_back,
    "state_lost": lambda _: "the worker lost this circuit's state, and its evidence starts from zero",
    "state_unavailable": lambda _: "the fleet's state is unavailable",
    "recovery_ramp": _recovery_ramp,
    "recovery_failed": _recovery_failed,
    "command": _command,
    "set_policy": _set_policy,
    "policy": _policy,
}
OPENING: Final = (
    *_BREACHES, "probe_failed", "probe_slow", "probe_failure_rate", "probe_slow_call_rate", "probes_ignored", "half_open_timeout",
    "recovery_failed",
)  # fmt: skip
"""Rules that open a circuit, or open it again."""
_PINNED: Final = ("forced_open", "disabled", "metrics_only")
_COMMANDED: Final[dict[str, str]] = {
    "open": "forced open",
    "forced_open": "forced open",
    "closed": "closed",
    "disabled": "disabled",
    "metrics_only": "set to metrics only",
}


# -- parts of sentences


def _of_calls(number: int, facts: _Facts) -> str:
    """Return ``8 of the last 8 calls``, ``9 of 12 calls within 60 s`` or ``the last call``."""
    sample = _whole(facts.sample)
    if not sample:
        return _counted(number, "call")
    if number == sample == 1:
        return "the last call"
    return f"{_number(number)} of {_calls(sample, facts)}"


def _share_of_calls(facts: _Facts) -> str:
    return _of_calls(_part(facts), facts) if facts.sample else "too many calls"


def _calls(sample: int, facts: _Facts) -> str:
    if facts.window_s is None:
        return f"the last {_counted(sample, 'call')}"
    return f"{_counted(sample, 'call')} within {_seconds(facts.window_s)}"


def _of_probes(number: int, facts: _Facts) -> str:
    """Return ``the probe call``, ``3 probe calls`` or ``1 of 3 probe calls``."""
    sample = _whole(facts.sample)
    if number == sample == 1:
        return "the probe call"
    return _counted(number, "probe call") if sample <= number else f"{_number(number)} of {_number(sample)} probe calls"


def _slow(facts: _Facts) -> str:
    return "took too long" if facts.slow_ms is None else f"took longer than {_seconds(facts.slow_ms / 1000)}"


def _share(facts: _Facts) -> str:
    if facts.value is None:
        return ""
    if facts.threshold is None:
        return f" ({percent(facts.value)})"
    return f" ({percent(facts.value)}; the limit is {percent(facts.threshold)})"


def _part(facts: _Facts) -> int:
    """Return the number of calls that a share stands for."""
    return round((facts.value or 0.0) * (facts.sample or 0))


def _limit(threshold: float | None) -> str:
    return "" if threshold is None else f" (the limit is {_number(_whole(threshold))})"


def _because(facts: Part) -> str:
    return f": {facts.reason}" if facts.reason else ""


def _and(facts: _Facts) -> str:
    return f"; {facts.reason}" if facts.reason else ""


def _at_least(number: int, one: str, many: str) -> str:
    """Return ``at least …``, because the breaker counts reporters and tools only up to the number that it needs."""
    return f"1 {one}" if number == 1 else f"at least {_number(number)} {many}"


def _counted(number: int, noun: str) -> str:
    return f"{_number(number)} {noun}{'' if number == 1 else 's'}"


def _number(number: int) -> str:
    return f"{number:,}"


def _whole(value: float | None) -> int:
    return int(value or 0)


def _seconds(seconds: float) -> str:
    """Return ``500 ms``, ``2.5 s``, ``60 s``, ``5 min`` or ``1 h``, never rounded."""
    if seconds < 1:
        return f"{seconds * 1000:g} ms"
    if seconds < 120 or seconds % 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds % 3600 else f"{seconds / 3600:g} h"


# -- fields of a record


def _get(part: Part, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def _failed(cause: Part, counts: Part) -> int | None:
    """Return the failed calls of the cause; else those of the window, if the sample is the whole window."""
    failed = _get(cause, "failed")
    if failed is None and _get(counts, "calls") == _get(cause, "sample"):
        failed = _get(counts, "failed")
    return None if failed is None else int(failed)
