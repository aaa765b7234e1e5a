"""Put together the page ``now``: pure functions from circuits and figures to the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from switchgear.follower.view import CircuitView
from switchgear_api.console.figures import Figures, Opening, Outage, ToolFigures
from switchgear_api.console.records import VERBS, advice, circuit_part, iso, no_circuit
from switchgear_api.console.shapes import Advice, CircuitRecord, Family, Fleet, Saved, Tool, Waste
from switchgear_schemas.enums import BROKEN, REFUSING
from switchgear_schemas.families import family_of
from switchgear_sinks.health.verdict import Counted, judge

MOST_TOOLS: Final = 5_000


class Board(TypedDict):
    """The page ``now`` without its head."""

    fleet: Fleet
    tools: list[Tool]
    families: list[Family]


def openings(circuits: Iterable[CircuitView], stored: Mapping[str, Opening]) -> dict[str, Opening]:
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


def is_refusing(circuit: CircuitView) -> bool:
    """Return whether the circuit refuses calls, some or all of them."""
    return circuit.forced or (circuit.state in BROKEN and not circuit.overrides)


def is_troubled(row: Tool) -> bool:
    """Return whether an operator should look at a tool: one of its circuits is not closed, or something is advised."""
    return bool(row["state"] != "closed" or row["action"]["text"] or row["local_opens"] or row["scoped_open"])


def assemble(
    circuits: Mapping[str, CircuitView] | None,
    figures: Figures,
    opened: Mapping[str, Opening],
    *,
    family_pattern: str,
) -> Board:
    """Return ``fleet``, ``tools`` and ``families``.

    Args:
        circuits: All circuits by id. None: the reader may not see them, and every state is ``unknown``.
        figures: What the store knows.
        opened: As of :func:`openings`.
        family_pattern: Which tools belong to a family.
    """
    of_tool: dict[str, CircuitView] = {}
    families: dict[str, CircuitView] = {}
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
        tools.append(tool_row(part, name, figures, opened.get(name), scoped.get(name, 0)))
    tools.sort(key=_order)
    members: dict[str, list[str]] = {}
    for row in tools:
        if row["family"] is not None:
            members.setdefault(row["family"], []).append(row["tool"])
    listed: list[Family] = [
        {**circuit_part(circuit), "tools": members.get(name, []), "local_opens": figures.local.get(name, [])}
        for name, circuit in families.items()
    ]
    listed.sort(key=lambda each: (each["state"] == "closed", each["tool"]))
    return {"fleet": fleet_of(tools), "tools": tools[:MOST_TOOLS], "families": listed}


def tool_row(part: CircuitRecord, name: str, figures: Figures, opened: Opening | None, scoped_open: int = 0) -> Tool:
    """Return one tool: its circuit's fields and its numbers."""
    counted = figures.tools.get(name) or ToolFigures()
    outage = figures.outages.get(name) if opened is not None else None
    return {
        **part,
        **advice_for(part, counted),
        "opened_at": None if opened is None else iso(opened.at),
        "opened_why": None if opened is None else opened.why,
        "stats": figures.stats(name),
        "beat": {
            "calls": counted.beat_calls or (0,) * figures.minutes,
            "errors": counted.beat_errors or (0,) * figures.minutes,
        },
        "wasted": (outage or Outage()).wasted,
        "saved": (outage or Outage()).saved,
        "blast": None if outage is None else outage.blast,
        "local_opens": figures.local.get(name, []),
        "scoped_open": scoped_open,
        "last_call_at": iso(counted.last_at),
    }


def advised(part: CircuitRecord, counted: Counted) -> dict[str, object]:
    """Return a tool's circuit with what kind of failure it is, and what to do about it in this state."""
    return {**part, **advice_for(part, counted)}


def advice_for(part: CircuitRecord, counted: Counted) -> Advice:
    """Return what kind of failure it is, and what to do about it in this state."""
    kind = judge(counted, part["state"]).kind
    return {"kind": kind, "action": {"text": advice(part, kind), "verbs": list(VERBS)}}


def fleet_of(tools: Iterable[Tool]) -> Fleet:
    """Return the totals."""
    rows = list(tools)
    stats = [row["stats"] for row in rows]
    whole = Counted(**_sums(stats, "calls", "errors", "caller_errors", "cancelled", "ignored"))
    return {
        "calls": whole.calls,
        "errors": whole.errors,
        "error_rate": round(whole.error_rate, 6),
        "refused": sum(each["refused"] for each in stats),
        "tools": len(rows),
        "open": sum(row["state"] in REFUSING for row in rows),
        "half_open": sum(row["state"] == "half_open" for row in rows),
        "wasted": _sums([row["wasted"] for row in rows], *Waste.__annotations__),
        "saved": _sums([row["saved"] for row in rows], *Saved.__annotations__) | {"estimated": True},
    }


def _sums(rows: Sequence[Any], *names: str) -> Any:
    return {name: sum(row[name] for row in rows) for name in names}


def _order(row: Tool) -> tuple[bool, int, int, str]:
    return row["state"] in {"closed", "unknown"}, -row["stats"]["errors"], -row["stats"]["calls"], row["tool"]
