"""Show the API's answers as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from switchgear_cli.reads import problems
from switchgear_cli.reads.formats import NOTHING, STATE_STYLES, ago, count, duration, moment, named, plain, share, state
from switchgear_cli.reads.limits import limit_in_words
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, name, number, time, words
from switchgear_schemas.enums import REFUSING
from switchgear_schemas.explain import explain, percent

Answer = Mapping[str, Any]


def tools(answer: Answer) -> RenderableType:
    """Return a table of every tool's health."""
    reports = answer["tool_reports"]
    if not reports:
        return Text("No tool has been called yet. `switchgear emit FILE` or a guarded call makes the first.")
    unjudged = [key for key in _UNJUDGED if any(each.get(key) for each in reports)]
    table = ResponsiveTable(
        name("tool"), Column("health"), Column("circuit"), number("calls"), number("failed", lesser=1),
        *(_UNJUDGED[key] for key in unjudged),
        number("success"), number("avg", lesser=5), number("p95"), number("refused", lesser=4),
    )  # fmt: skip
    for each in sorted(reports, key=lambda one: (_ORDER.index(one["status"]), one["tool_name"])):
        judged = each["success_rate"] > 0 or each["recent_errors"] > 0
        table.add(
            named(each["tool_name"]),
            state(each["status"]),
            state(each["circuit_state"]),
            count(each["total_calls"]),
            count(each["recent_errors"]),
            *(count(each.get(key, 0)) for key in unjudged),
            share(each["success_rate"]) if judged else NOTHING,
            duration(each["avg_latency_ms"]) if judged else NOTHING,
            duration(each["p95_latency_ms"]) if judged else NOTHING,
            count(each["rejected_calls"]),
        )
    counts = ", ".join(f"{tally} {status}" for status, tally in answer["summary"].items() if tally)
    heading = Text.assemble("System ", state(answer["status"]), f" over {_hours(answer['hours'])}: {counts}.")
    return Group(heading, "", table)


def tool(answer: Answer) -> RenderableType:
    """Return one tool's report: verdict, figures, circuits, errors."""
    report, stats, now = answer["report"], answer["stats"], answer["report"]["checked_at"]
    parts: list[RenderableType] = [
        Text.assemble(
            (named(report["tool_name"]), "bold"), "  ", state(report["status"]), f"  over {_hours(answer['hours'])}"
        ),
        "",
        _figures(stats, answer, now),
    ]
    for title, sentences in (("Issues", report["issues"]), ("What to do", report["recommendations"])):
        if sentences:
            parts += ["", Text(title, style="bold"), *(Text(f"  • {plain(each)}") for each in sentences)]
    if answer["circuits"] or answer.get("local_circuits"):
        parts += ["", circuits({**answer, "checked_at": now})]
    if answer["errors"]["templates"]:
        table = ResponsiveTable(name("error"), number("count"), time("last seen"), words("message"))
        for each in answer["errors"]["templates"]:
            table.add(
                named(each["error_type"]),
                count(each["count"]),
                moment(each["last_seen"], now),
                plain(each["template"]),
            )
        parts += ["", table]
    return Group(*parts)


def circuits(answer: Answer) -> RenderableType:
    """Return a table of the fleet's circuits, and another of those that processes opened by themselves. What does not work is above both."""
    wrong = problems.lines(answer.get("problems", ()), answer["checked_at"])
    return Group(*wrong, "", _circuits(answer)) if wrong else _circuits(answer)


def _circuits(answer: Answer) -> RenderableType:
    fleets, local, now = answer["circuits"], answer.get("local_circuits"), answer["checked_at"]
    if not local:
        if not fleets:
            return Text("No circuit yet: a worker makes one when a tool's first calls arrive.")
        return _circuit_rows(fleets, now)
    refusing = sum(each["state"] in REFUSING for each in fleets)
    title = f"Opened by processes on their own evidence (last {round(answer['local_within_s'] / 60)} minutes)"
    return Group(
        Text(f"Fleet: {_circuits_open(refusing)}.", style="bold"),
        *([_circuit_rows(fleets, now)] if fleets else []),
        "",
        Text(title, style="bold"),
        _local_rows(local, now),
        Text(_LOCAL_MEANS, style="dim"),
    )


def circuit_history(answer: Answer) -> RenderableType:
    """Return a table of circuit records, newest first."""
    if not answer["history"]:
        return Text("No circuit has changed yet.")
    table = ResponsiveTable(time("time"), name("circuit"), Column("change"), number("version", lesser=1), words("why"))
    for each in answer["history"]:
        change = Text.assemble(state(each["previous_state"]), " → ", _state_of(each))
        table.add(
            moment(each["changed_at"], answer["checked_at"]),
            named(each["circuit_id"]),
            change,
            str(each["version"]),
            _cause(each),
        )
    return table


def executions(calls: Iterable[Answer], nothing: str, *, by_duration: bool = False) -> RenderableType:
    """Return a table of calls: when, which tool, how it ended, how long it took, the error.

    Args:
        calls: The API's executions, in the order of the rows.
        nothing: The sentence for no calls.
        by_duration: The durations are what the reader asks for, so that column stays on a narrow terminal.
    """
    rows = list(calls)
    if not rows:
        return Text(nothing)
    table = ResponsiveTable(
        time("time"),
        name("tool"),
        Column("status", lesser=1),
        number("took", lesser=0 if by_duration else 2),
        words("error"),
    )
    for each in rows:
        table.add(
            moment(each["recorded_at"]),
            named(each["tool_name"]),
            state(each["status"]),
            duration(each["execution_time_ms"]),
            _error(each),
        )
    return table


_WHOSE: Final = {"tool": "", "family": " (all its tools)"}
_LOCAL_MEANS: Final = "Each of these processes refuses calls by its own circuit, not by the fleet's. When a process ends, its circuit is gone."
_ORDER: Final = ("unhealthy", "degraded", "healthy", "unknown")
_UNJUDGED: Final = {
    "caller_errors": number("caller err.", lesser=2),
    "cancelled_calls": number("cancelled", lesser=3),
}
"""Columns of calls that don't count for the tool's health. Shown if a tool has some."""


def _error(call: Answer) -> str:
    """Return type and message, or the message alone if it begins with the type."""
    kind, message = plain(call["error_type"] or call["error_class"]), plain(call["error_message"])
    return message if message.startswith(kind) else f"{kind}: {message}" if message else kind


def _circuit_rows(rows: Iterable[Answer], now: str) -> ResponsiveTable:
    """Return a table of circuits. A family that refuses calls stands for the circuits of its tools."""
    rows = list(rows)
    refusing = {each["family"] for each in rows if each.get("scope") == "family" and each["state"] in REFUSING}
    table = ResponsiveTable(
        name("circuit"), Column("state"), time("since"), number("opens 24 h", lesser=1), time("last opened", lesser=2),
        time("last closed", lesser=3), words("why"),
    )  # fmt: skip
    for each in rows:
        family = each.get("scope") == "family"
        if not family and each.get("family") in refusing:
            continue
        name_of_row = f"{plain(each['tool_name'])}{_WHOSE['family']}" if family else named(each["circuit_id"])
        table.add(
            name_of_row,
            _state_of(each),
            moment(each["changed_at"], now),
            count(each["opens"]),
            moment(each["last_opened_at"], now),
            moment(each["last_closed_at"], now),
            _why_and_when(each, now, _of_tools(each, rows) if family else limit_in_words(each, now)),
        )
    return table


def _of_tools(family: Answer, rows: Iterable[Answer]) -> str:
    """Return what there is to say of the circuits of a refusing family's tools, which have no rows."""
    if family["state"] not in REFUSING:
        return ""
    shut = sum(
        each.get("scope") != "family" and each.get("family") == family["family"] and each["state"] in REFUSING
        for each in rows
    )
    return f"refuses its tools ({shut} open themselves)" if shut else "refuses its tools"


def _state_of(circuit: Answer) -> Text:
    """Return the state, or ``recovering 25 %`` for a closed circuit that admits a share of the calls."""
    admitted = circuit.get("admitted_share", 1)
    if circuit["state"] != "closed" or admitted == 1:
        return state(circuit["state"])
    return Text(f"recovering {percent(admitted)}", style=STATE_STYLES["half_open"])


def _circuits_open(number: int) -> str:
    return "no circuit is open" if not number else "1 circuit is open" if number == 1 else f"{number} circuits are open"


def _local_rows(rows: Iterable[Answer], now: str) -> ResponsiveTable:
    table = ResponsiveTable(
        name("tool"), Column("state", lesser=3), Column("service", lesser=1), number("processes"), number("refusals"),
        time("since", lesser=2), words("why"),
    )  # fmt: skip
    for each in rows:
        whose = _WHOSE.get(each["scope"], f" (per {each['scope']})")
        table.add(
            f"{plain(each['tool_name'])}{whose}",
            state(each["state"]),
            named(each["service"]) or NOTHING,
            count(each["processes"]),
            count(each["refusals"]),
            moment(each["since"], now),
            _why_and_when(each, now, f"last refusal {ago(each['last_refusal_at'], now)}"),
        )
    return table


def _why_and_when(circuit: Answer, now: str, more: str = "") -> str:
    """Return the cause and ``more``, and when an open circuit is probed."""
    parts = [_cause(circuit), more]
    if circuit["state"] == "open" and circuit["open_until"] is not None:
        wait = ago(circuit["open_until"], now)
        parts.append(f"probe {wait if wait.startswith('in ') else 'due'}")
    return "; ".join(part for part in parts if part)


def _figures(stats: Answer, answer: Answer, now: str) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    callers, cancelled = stats.get("caller_error_count", 0), stats.get("cancelled_count", 0)
    judged = stats["success_rate"] > 0 or stats["error_count"] + stats["timeout_count"] > callers
    rows = [
        ("calls", f"{count(stats['total_calls'])} ({count(answer['stored_calls'])} rows stored in all)"),
        ("success", share(stats["success_rate"]) if judged else NOTHING),
        ("errors", f"{count(stats['error_count'])}, timeouts {count(stats['timeout_count'])}"),
        ("refused", f"{count(stats['rejected_count'])} (not among the calls)"),
        ("latency", _latency(stats) if judged else NOTHING),
        ("last success", str(moment(answer["last_success"], now))),
        ("last failure", f"{moment(answer['last_failure'], now)} {plain(answer['last_error'])}".strip()),
    ]
    if cancelled:
        after = duration(stats["avg_cancelled_ms"])
        rows.insert(3, ("cancelled", f"{count(cancelled)}, after {after} on average (not in the success rate)"))
    if callers:
        rows.insert(3, ("caller errors", f"{count(callers)} of these (not in the success rate)"))
    for heading, value in rows:
        table.add_row(Text(heading, style="dim"), Text(value))
    return table


def _latency(stats: Answer) -> str:
    names = (("avg", "avg_time_ms"), ("p50", "p50_time_ms"), ("p95", "p95_time_ms"), ("p99", "p99_time_ms"))
    return ", ".join(f"{label} {duration(stats[key])}" for label, key in (*names, ("max", "max_time_ms")))


def _cause(circuit: Answer) -> str:
    return plain(explain(circuit["cause"], circuit.get("counts"), state=circuit["state"]))


def _hours(hours: float) -> str:
    return "the last hour" if hours == 1 else f"the last {hours:g} hours"
