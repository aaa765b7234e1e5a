"""Put the verdict on a tool into words: its issues, and what to do. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from switchgear_schemas.enums import REFUSING, ErrorClass
from switchgear_schemas.explain import explain, percent
from switchgear_schemas.health import HealthStatus
from switchgear_sinks.health.verdict import (
    LATENCY_DEGRADED_MS,
    LATENCY_HEALTHY_MS,
    MIN_CALLS_FOR_ASSESSMENT,
    SUCCESS_RATE_DEGRADED,
    SUCCESS_RATE_HEALTHY,
    Counted,
    judge,
)

_LONGEST_MESSAGE: Final = 160
_ADVICE: Final = {
    "timeout": "Find out why {tool} is slow before you raise its timeout. Until then, give it a fallback.",
    "transport": "Check that {tool}'s server runs and can be reached from where its callers run.",
    "rate_limited": "Call {tool} less often, cache its results, or ask for a higher limit.",
    "auth": "Renew or correct {tool}'s credentials: retries will not help.",
    "invalid_input": "Correct how {tool} is called: its schema or description leads callers to wrong arguments.",
    "server": "Notify the operators of {tool}: the error is on its side. Until it is fixed, give it a fallback.",
}

_NOT_WELL: Final = (HealthStatus.DEGRADED, HealthStatus.UNHEALTHY)
_CALLER_ERROR: Final[dict[ErrorClass, tuple[str, str]]] = {
    "invalid_input": ("were rejected because of what the caller sent", _ADVICE["invalid_input"]),
    "tool": (
        "got an error as the tool's own answer",
        "Read what {tool} answers (switchgear errors --tool {tool}): it works, and refuses what it is asked for.",
    ),
    "auth": ("were refused for their credentials", _ADVICE["auth"]),
    "policy": (
        "do not count, because another guarded tool refused or their caller ignores them",
        "Look at the circuits of the tools that {tool} calls (switchgear circuits), where no rule of yours ignores these calls.",
    ),
}
"""By class of a caller error: what happened, and what to do."""


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """The figures of a tool over a period.

    Args:
        tool_name: The tool.
        stats: A result of ``get_tool_stats``.
        period_hours: Length of the period.
        errors: The tool's errors from :meth:`ToolErrorsRepository.types`, most frequent first.
        circuit: The record of its circuit, if there is one.
        now: The time of the assessment.
    """

    tool_name: str
    stats: Mapping[str, Any]
    period_hours: float
    errors: Sequence[Mapping[str, Any]] = field(default=())
    circuit: Mapping[str, Any] | None = None
    now: datetime | None = None

    @property
    def counted(self) -> Counted:
        """The calls, as they are judged."""
        return Counted.of(self.stats)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The status of a tool, with its issues and recommendations for people."""

    status: HealthStatus
    issues: list[str]
    recommendations: list[str]


def assess(figures: ToolFigures) -> Assessment:
    """Judge one tool (:func:`~switchgear_sinks.health.verdict.judge`), and say why, and what to do.

    Caller errors, and cancelled calls, are an issue from 5 % of all calls.
    """
    counted, circuit, tool = figures.counted, figures.circuit, figures.tool_name
    issues: list[str] = []
    advice: list[str] = []
    refuses = _refuses(circuit, figures.now)
    average_ms = float(figures.stats["avg_time_ms"])
    verdict = judge(counted, None if circuit is None else circuit["state"], refuses=refuses, average_ms=average_ms)
    if counted.judged < MIN_CALLS_FOR_ASSESSMENT:
        _add_too_few(figures, refuses=refuses, issues=issues, advice=advice)
    if verdict.by_rate in _NOT_WELL:
        issues.append(_rate_issue(figures, verdict.by_rate))
        advice.append(_rate_advice(figures))
    if verdict.by_latency in _NOT_WELL:
        issues.append(_latency_issue(figures, verdict.by_latency))
        advice.append(
            f"Look at the slowest calls of {tool} (switchgear slow), and set a timeout below what callers can wait."
        )
    failed = _failures_of_the_tool(figures)
    if counted.calls and failed:
        issues.append(_error_issue(failed[0]))
    _add_caller_errors(figures, issues, advice)
    _add_cancelled(figures, issues, advice)
    _add_circuit(figures, refuses=refuses, issues=issues, advice=advice)
    return Assessment(verdict.status, issues, advice)


def _add_too_few(figures: ToolFigures, *, refuses: bool, issues: list[str], advice: list[str]) -> None:
    calls, judged, tool = figures.counted.calls, figures.counted.judged, figures.tool_name
    if judged < calls:
        few = f"only {judged}" if judged else "none"
        issues.append(
            f"No status: {few} of the {calls} calls {_in(figures)} count for {tool}'s health; "
            f"{MIN_CALLS_FOR_ASSESSMENT} are needed."
        )
    elif calls:
        issues.append(f"Only {calls} of the {MIN_CALLS_FOR_ASSESSMENT} calls needed for a status {_in(figures)}.")
    else:
        issues.append(f"No calls {_in(figures)}.")
        if not refuses:
            advice.append(f"Nothing to do, unless {tool} should have been called: then check who calls it.")


def _rate_issue(figures: ToolFigures, status: HealthStatus) -> str:
    stats, counted = figures.stats, figures.counted
    which = "calls" if counted.judged == counted.calls else "judged calls"
    needed = SUCCESS_RATE_HEALTHY if status is HealthStatus.DEGRADED else SUCCESS_RATE_DEGRADED
    return (
        f"Success rate {percent(stats['success_rate'])}, below {percent(needed)}: {counted.errors} of {counted.judged} {which} "
        f"failed {_in(figures)} ({counted.timeouts} timed out)."
    )


def _latency_issue(figures: ToolFigures, status: HealthStatus) -> str:
    stats = figures.stats
    limit = LATENCY_HEALTHY_MS if status is HealthStatus.DEGRADED else LATENCY_DEGRADED_MS
    tail = f"; 95 % of calls took up to {stats['p95_time_ms']:.0f} ms" if stats.get("p95_time_ms") else ""
    return f"Average latency {stats['avg_time_ms']:.0f} ms, above {limit} ms {_in(figures)}{tail}."


def _failures_of_the_tool(figures: ToolFigures) -> list[Mapping[str, Any]]:
    return [each for each in figures.errors if not each["caller_error"]]


def _error_issue(top: Mapping[str, Any]) -> str:
    message = _message(top)
    times = "once" if top["count"] == 1 else f"{top['count']} times"
    said = f": {message}" if message else ""
    return f"Most frequent error: {top['error_type']}, {times} since {_clock(top['first_seen'])}{said}"


def _add_caller_errors(figures: ToolFigures, issues: list[str], advice: list[str]) -> None:
    counted, tool = figures.counted, figures.tool_name
    if not counted.is_notable(counted.caller_errors):
        return
    by_class: dict[ErrorClass, list[Mapping[str, Any]]] = {}
    for each in figures.errors:
        if each["caller_error"]:
            by_class.setdefault(each["caller_error"], []).append(each)
    for kind, errors in sorted(by_class.items(), key=lambda found: -sum(each["count"] for each in found[1])):
        happened, what_to_do = _CALLER_ERROR[kind]
        count, named = sum(each["count"] for each in errors), str(errors[0]["error_type"])
        said = "".join(f": {part}" for part in ("" if named == kind else named, _message(errors[0])) if part)
        issues.append(f"{count} of {counted.calls} calls {_in(figures)} {happened} ({kind}){said}")
        advice.append(what_to_do.format(tool=tool))


def _add_cancelled(figures: ToolFigures, issues: list[str], advice: list[str]) -> None:
    counted, tool = figures.counted, figures.tool_name
    if not counted.is_notable(counted.cancelled):
        return
    average_ms = float(figures.stats["avg_cancelled_ms"])
    after = (
        f"after {average_ms:.0f} ms on average" if average_ms < 1000 else f"after {average_ms / 1000:.1f} s on average"
    )
    issues.append(f"{counted.cancelled} of {counted.calls} calls {_in(figures)} were cancelled by the caller, {after}.")
    advice.append(f"Callers of {tool} give up {after}: look at their time limits.")


def _message(error: Mapping[str, Any]) -> str:
    message = str(error["example"])
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"


def _rate_advice(figures: ToolFigures) -> str:
    for kind in (str(top["error_type"]).lower() for top in _failures_of_the_tool(figures)[:1]):
        for known, advice in _ADVICE.items():
            if known.replace("_", "") in kind.replace("_", "").replace("ratelimit", "ratelimited"):
                return advice.format(tool=figures.tool_name)
    stats = figures.stats
    if stats["timeout_count"] > stats["error_count"]:
        return _ADVICE["timeout"].format(tool=figures.tool_name)
    return f"Read the errors (switchgear errors --tool {figures.tool_name}), and give the tool a fallback until they are gone."


def _add_circuit(figures: ToolFigures, *, refuses: bool, issues: list[str], advice: list[str]) -> None:
    circuit, tool = figures.circuit, figures.tool_name
    if circuit is None or circuit["state"] in {"closed", "disabled", "metrics_only"}:
        return
    why = ""
    if "cause" in circuit:  # the reader may see it
        why = f": {explain(circuit['cause'], circuit.get('counts'), state=circuit['state']) or 'no cause recorded'}"
    state = str(circuit["state"]).replace("_", " ")
    issues.append(f"Its circuit is {state} since {_clock(circuit['changed_at'])}{why}.")
    if circuit["state"] == "forced_open":
        advice.append(f"Close the circuit of {tool} again when the reason is gone: it was forced open.")
    elif refuses:
        advice.append(
            f"Callers of {tool} are refused until a probe succeeds, at {_clock(circuit['open_until'])} the earliest."
        )
    else:
        advice.append(f"The next call of {tool} is the probe that decides.")


def _refuses(circuit: Mapping[str, Any] | None, now: datetime | None) -> bool:
    if circuit is None or circuit["state"] not in REFUSING:
        return False
    until = circuit.get("open_until")
    return circuit["state"] == "forced_open" or (until is not None and (now is None or now < until))


def _in(figures: ToolFigures) -> str:
    hours = figures.period_hours
    return "in the last hour" if hours == 1 else f"in the last {hours:g} hours"


def _clock(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if isinstance(moment, datetime) else "an unknown time"
