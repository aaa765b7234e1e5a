"""From a tool's figures to its health: pure rules, with the seeds' thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from switchgear_schemas.health import HealthStatus

SUCCESS_RATE_HEALTHY: Final = 0.95
SUCCESS_RATE_DEGRADED: Final = 0.80
LATENCY_HEALTHY_MS: Final = 2000
LATENCY_DEGRADED_MS: Final = 5000
MIN_CALLS_FOR_ASSESSMENT: Final = 5
_REFUSING: Final = ("open", "forced_open")
_SEVERITY: Final = (HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY)
_LONGEST_MESSAGE: Final = 160
_ADVICE: Final = {
    "timeout": "Find out why {tool} is slow before raising its timeout; meanwhile give it a fallback.",
    "transport": "Check that {tool}'s server runs and can be reached from where its callers run.",
    "rate_limited": "Call {tool} less often, cache its results, or ask for a higher limit.",
    "auth": "Renew or correct {tool}'s credentials: retries will not help.",
    "invalid_input": "Correct how {tool} is called: its schema or description leads callers to wrong arguments.",
    "server": "Tell whoever runs {tool}: the error is on its side; meanwhile give it a fallback.",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a tool over a period.

    ``stats`` is a result of ``get_tool_stats``; ``errors`` results of ``get_error_types`` for the tool, most
    frequent first; ``circuit`` a record of its circuit, where one is known.
    """

    tool_name: str
    stats: Mapping[str, Any]
    period_hours: float
    errors: Sequence[Mapping[str, Any]] = field(default=())
    circuit: Mapping[str, Any] | None = None
    registered: bool = True
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict, and what to tell people."""

    status: HealthStatus
    issues: list[str]
    recommendations: list[str]


def assess(evidence: Evidence) -> Assessment:
    """Judge one tool.

    Fewer than five calls are no evidence (unknown), unless its circuit refuses calls (unhealthy). Else the worse of:
    success rate (>= 0.95 healthy, >= 0.80 degraded) and average latency (<= 2000 ms healthy, <= 5000 ms degraded).
    """
    stats, tool = evidence.stats, evidence.tool_name
    issues: list[str] = []
    advice: list[str] = []
    refusing = _refusing(evidence.circuit, evidence.now)
    calls = int(stats["total_calls"])
    if calls < MIN_CALLS_FOR_ASSESSMENT:
        status = HealthStatus.UNHEALTHY if refusing else HealthStatus.UNKNOWN
        if calls:
            issues.append(f"Only {calls} of the {MIN_CALLS_FOR_ASSESSMENT} calls needed for a verdict {_in(evidence)}.")
        else:
            issues.append(f"No calls {_in(evidence)}.")
            if not refusing:
                advice.append(f"Nothing to do, unless {tool} should have been called: then check who calls it.")
    else:
        by_rate, by_latency = rate_status(stats["success_rate"]), latency_status(stats["avg_time_ms"])
        status = worst((by_rate, by_latency))
        if by_rate is not HealthStatus.HEALTHY:
            issues.append(_rate_issue(evidence, by_rate))
            advice.append(_rate_advice(evidence))
        if by_latency is not HealthStatus.HEALTHY:
            issues.append(_latency_issue(evidence, by_latency))
            advice.append(
                f"Look at the slowest calls of {tool} (switchgear slow), and set a timeout below what callers can wait."
            )
    if calls and evidence.errors:
        issues.append(_error_issue(evidence))
    _add_circuit(evidence, refusing=refusing, issues=issues, advice=advice)
    return Assessment(status, issues, advice)


def rate_status(success_rate: float) -> HealthStatus:
    """Of a share of successful calls, 0 to 1."""
    if success_rate >= SUCCESS_RATE_HEALTHY:
        return HealthStatus.HEALTHY
    return HealthStatus.DEGRADED if success_rate >= SUCCESS_RATE_DEGRADED else HealthStatus.UNHEALTHY


def latency_status(average_ms: float) -> HealthStatus:
    """Of an average duration in milliseconds."""
    if average_ms <= LATENCY_HEALTHY_MS:
        return HealthStatus.HEALTHY
    return HealthStatus.DEGRADED if average_ms <= LATENCY_DEGRADED_MS else HealthStatus.UNHEALTHY


def worst(statuses: Iterable[HealthStatus]) -> HealthStatus:
    """The most severe of statuses that are not unknown."""
    return max(statuses, key=_SEVERITY.index)


def system_status(statuses: Sequence[HealthStatus]) -> HealthStatus:
    """Of all tools: unhealthy where at least half of those with a verdict are, degraded where any is not healthy.

    One broken tool of many degrades the system (the seeds' dashboard: 10 healthy, 2 degraded and 1 unhealthy are
    "degraded"). Unknown where no tool has a verdict.
    """
    judged = [status for status in statuses if status is not HealthStatus.UNKNOWN]
    if not judged:
        return HealthStatus.UNKNOWN
    if 2 * judged.count(HealthStatus.UNHEALTHY) >= len(judged):
        return HealthStatus.UNHEALTHY
    return HealthStatus.HEALTHY if judged.count(HealthStatus.HEALTHY) == len(judged) else HealthStatus.DEGRADED


def _rate_issue(evidence: Evidence, status: HealthStatus) -> str:
    stats = evidence.stats
    failed = int(stats["error_count"]) + int(stats["timeout_count"])
    needed = SUCCESS_RATE_HEALTHY if status is HealthStatus.DEGRADED else SUCCESS_RATE_DEGRADED
    return (
        f"Success rate {percent(stats['success_rate'])}, below {percent(needed)}: {failed} of {stats['total_calls']} calls "
        f"failed {_in(evidence)} ({stats['timeout_count']} timed out)."
    )


def _latency_issue(evidence: Evidence, status: HealthStatus) -> str:
    stats = evidence.stats
    limit = LATENCY_HEALTHY_MS if status is HealthStatus.DEGRADED else LATENCY_DEGRADED_MS
    tail = f"; 95 % of calls took up to {stats['p95_time_ms']:.0f} ms" if stats.get("p95_time_ms") else ""
    return f"Average latency {stats['avg_time_ms']:.0f} ms, above {limit} ms {_in(evidence)}{tail}."


def _error_issue(evidence: Evidence) -> str:
    top = evidence.errors[0]
    message = str(top["example"])
    message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
    times = "once" if top["count"] == 1 else f"{top['count']} times"
    said = f": {message}" if message else ""
    return f"Most frequent error: {top['error_type']}, {times} since {_clock(top['first_seen'])}{said}"


def _rate_advice(evidence: Evidence) -> str:
    kinds = [str(top.get("error_class") or top["error_type"]).lower() for top in evidence.errors[:1]]
    for kind in kinds:
        for known, advice in _ADVICE.items():
            if known.replace("_", "") in kind.replace("_", "").replace("ratelimit", "ratelimited"):
                return advice.format(tool=evidence.tool_name)
    stats = evidence.stats
    if stats["timeout_count"] > stats["error_count"]:
        return _ADVICE["timeout"].format(tool=evidence.tool_name)
    return f"Read the errors (switchgear errors --tool {evidence.tool_name}), and give the tool a fallback until they are gone."


def _add_circuit(evidence: Evidence, *, refusing: bool, issues: list[str], advice: list[str]) -> None:
    circuit, tool = evidence.circuit, evidence.tool_name
    if circuit is None or circuit["state"] in {"closed", "disabled", "metrics_only"}:
        return
    cause = circuit.get("cause") or {}
    why = cause.get("reason") or cause.get("rule") or "no cause recorded"
    state = str(circuit["state"]).replace("_", " ")
    issues.append(f"Its circuit is {state} since {_clock(circuit['changed_at'])} ({why}).")
    if circuit["state"] == "forced_open":
        advice.append(f"Close the circuit of {tool} again when the reason is gone: somebody forced it open.")
    elif refusing:
        advice.append(
            f"Callers of {tool} are refused until a probe succeeds, at {_clock(circuit['open_until'])} the earliest."
        )
    else:
        advice.append(f"The next call of {tool} is the probe that decides.")


def _refusing(circuit: Mapping[str, Any] | None, now: datetime | None) -> bool:
    if circuit is None or circuit["state"] not in _REFUSING:
        return False
    until = circuit.get("open_until")
    return circuit["state"] == "forced_open" or (until is not None and (now is None or now < until))


def percent(share: float) -> str:
    """0.9375 as ``93.75 %``; never rounded up to a threshold that was missed."""
    text = f"{int(share * 10_000) / 100:.2f}".rstrip("0").rstrip(".")
    return f"{text} %"


def _in(evidence: Evidence) -> str:
    hours = evidence.period_hours
    return "in the last hour" if hours == 1 else f"in the last {hours:g} hours"


def _clock(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if isinstance(moment, datetime) else "an unknown time"
