"""Put together the page ``now``: pure functions from circuits and figures to the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from switchgear_api.console.figures import Figures, Opening, Outage, ToolFigures
from switchgear_api.console.records import REFUSING, VERBS, RecordedCircuit, advice, circuit_part, iso, no_circuit
from switchgear_schemas.families import family_of

MOST_TOOLS: Final = 5_000
_ENOUGH: Final = 5
"""Calls from which a tool without an open circuit is said to be down, or to reject arguments."""
_HALF: Final = 0.5
_NO_WASTE: Final = {"calls": 0, "tokens": 0, "usd": 0.0, "seconds": 0.0}
_NO_SAVING: Final = {"refused": 0, "tokens": 0, "usd": 0.0, "seconds": 0.0, "estimated": True}


def openings(circuits: Iterable[RecordedCircuit], stored: Mapping[str, Opening]) -> dict[str, Opening]:
    """Return when and why the circuits of tools that refuse calls opened, by tool.

    Args:
        circuits: The circuits.
        stored: The stored openings, by circuit id. A circuit without one opened when it last changed.
    """
    found = {}
    for circuit in circuits:
        if circuit.scope == "tool" and is_refusing(circuit):
            changed = datetime.fromtimestamp(circuit.changed_at, UTC)
            known = stored.get(circuit.circuit_id)
            found[circuit.tool_name] = Opening(changed) if known is None or known.at > changed else known
    return found


def is_refusing(circuit: RecordedCircuit) -> bool:
    """Return whether the circuit refuses calls, some or all of them."""
    return circuit.forced or (circuit.state in REFUSING and not circuit.overrides)


def is_troubled(row: Mapping[str, Any]) -> bool:
    """Return whether an operator should look at a tool: one of its circuits is not closed, or something is advised."""
    return bool(row["state"] != "closed" or row["action"]["text"] or row["local_opens"] or row["scoped_open"])


def assemble(
    circuits: Mapping[str, RecordedCircuit] | None,
    figures: Figures,
    opened: Mapping[str, Opening],
    *,
    family_pattern: str,
) -> dict[str, Any]:
    """Return ``fleet``, ``tools`` and ``families``.

    Args:
        circuits: All circuits by id. None: the reader may not see them, and every state is ``unknown``.
        figures: What the store knows.
        opened: As of :func:`openings`.
        family_pattern: Which tools belong to a family.
    """
    of_tool: dict[str, RecordedCircuit] = {}
    families: dict[str, RecordedCircuit] = {}
    scoped: dict[str, int] = {}
    for circuit in (circuits or {}).values():
        if circuit.scope == "tool":
            of_tool[circuit.tool_name] = circuit
        elif circuit.scope == "family":
            families[circuit.tool_name] = circuit
        else:
            scoped[circuit.tool_name] = scoped.get(circuit.tool_name, 0) + is_refusing(circuit)
    names = of_tool.keys() | figures.tools.keys() | scoped.keys() | figures.local.keys() - families.keys()
    tools = []
    for name in names:
        record = of_tool.get(name)
        part = no_circuit(name, family_of(name, family_pattern)) if record is None else circuit_part(record)
        if circuits is None:
            part["state"] = "unknown"
        row = tool_row(part, name, figures, opened.get(name))
        row["scoped_open"] = scoped.get(name, 0)
        tools.append(row)
    tools.sort(key=_order)
    members: dict[str, list[str]] = {}
    for row in tools:
        if row["family"] is not None:
            members.setdefault(row["family"], []).append(row["tool"])
    listed = [
        circuit_part(circuit) | {"tools": members.get(name, []), "local_opens": figures.local.get(name, [])}
        for name, circuit in families.items()
    ]
    listed.sort(key=lambda each: (each["state"] == "closed", each["tool"]))
    return {"fleet": fleet_of(tools), "tools": tools[:MOST_TOOLS], "families": listed}


def tool_row(part: dict[str, Any], name: str, figures: Figures, opened: Opening | None) -> dict[str, Any]:
    """Return one tool: its circuit's fields and its numbers."""
    counted = figures.tools.get(name) or ToolFigures()
    outage = figures.outages.get(name) if opened is not None else None
    return advised(part, counted) | {
        "opened_at": None if opened is None else iso(opened.at),
        "opened_why": None if opened is None else opened.why,
        "stats": stats_of(counted, figures.refused.get(name, 0), figures.percentiles.get(name)),
        "beat": {
            "calls": counted.beat_calls or (0,) * figures.minutes,
            "errors": counted.beat_errors or (0,) * figures.minutes,
        },
        "wasted": dict(_NO_WASTE if outage is None else outage.wasted),
        "saved": saved_by(outage),
        "blast": None
        if outage is None
        else {
            "services": outage.services,
            "users": outage.users,
            "sessions": outage.sessions,
            "top_services": list(outage.top_services),
        },
        "local_opens": figures.local.get(name, []),
        "last_call_at": iso(counted.last_at),
    }


def advised(part: Mapping[str, Any], counted: ToolFigures) -> dict[str, Any]:
    """Return a tool's circuit with what kind of failure it is, and what to do about it in this state."""
    kind = kind_of(part["state"], counted)
    return {**part, "kind": kind, "action": {"text": advice(part, kind), "verbs": list(VERBS)}}


def stats_of(counted: ToolFigures, refused: int, percentiles: tuple[float, float, float] | None) -> dict[str, Any]:
    """Return the statistics of the window. Rates and times are of judged calls; times are null without one."""
    p50, p95, p99 = percentiles or (None, None, None)
    return {
        "calls": counted.calls,
        "errors": counted.errors,
        "timeouts": counted.timeouts,
        "caller_errors": counted.caller_errors,
        "cancelled": counted.cancelled,
        "refused": refused,
        "error_rate": round(counted.error_rate, 6),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
    }


def saved_by(outage: Outage | None) -> dict[str, Any]:
    """Return what refusing has saved: the refused calls times the mean cost of a failed call."""
    if outage is None:
        return dict(_NO_SAVING)
    return {
        "refused": outage.refused,
        "tokens": round(outage.refused * outage.mean_tokens),
        "usd": outage.refused * outage.mean_usd,
        "seconds": outage.refused * outage.mean_seconds,
        "estimated": True,
    }


def kind_of(state: str, counted: ToolFigures) -> str | None:
    """Return ``down`` if calls fail by the tool's own fault, ``rejects_arguments`` if most fail by the callers', else None."""
    if counted.caller_errors >= _ENOUGH and counted.caller_errors > counted.errors:
        return "rejects_arguments"
    failing = counted.errors >= _ENOUGH and counted.error_rate >= _HALF
    return "down" if state in REFUSING or failing else None


def fleet_of(tools: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals."""
    rows = list(tools)
    stats = [row["stats"] for row in rows]
    calls, errors, refused, callers, cancelled = (
        sum(each[name] for each in stats) for name in ("calls", "errors", "refused", "caller_errors", "cancelled")
    )
    judged = calls - callers - cancelled
    wasted = {name: sum(row["wasted"][name] for row in rows) for name in _NO_WASTE}
    saved = {name: sum(row["saved"][name] for row in rows) for name in _NO_SAVING if name != "estimated"}
    return {
        "calls": calls,
        "errors": errors,
        "error_rate": round(errors / judged, 6) if judged else 0.0,
        "refused": refused,
        "tools": len(rows),
        "open": sum(row["state"] in {"open", "forced_open"} for row in rows),
        "half_open": sum(row["state"] == "half_open" for row in rows),
        "wasted": wasted,
        "saved": saved | {"estimated": True},
    }


def _order(row: Mapping[str, Any]) -> tuple[bool, int, int, str]:
    return row["state"] in {"closed", "unknown"}, -row["stats"]["errors"], -row["stats"]["calls"], row["tool"]
