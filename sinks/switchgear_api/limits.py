"""The tools' rate limits for the answers about circuits. The store has none: they change each second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from switchgear.follower.view import CircuitView, PaceView
from switchgear_api.console.records import iso


def with_limits(
    stored: Iterable[Mapping[str, Any]], limited: Mapping[str, CircuitView], *, only_stored: bool = False
) -> list[Mapping[str, Any]]:
    """Return stored circuits with ``admitted_rate``, ``active_processes`` and ``pace``, and after them those that only have a limit.

    Args:
        stored: Circuits as :meth:`~switchgear_sinks.repository.CircuitsRepository.current` returns them.
        limited: The circuits with limits as the fleet has them now, by id.
        only_stored: Leave out those that only have a limit.
    """
    rows = [dict(each) for each in stored]
    if not only_stored:
        known = {each["circuit_id"] for each in rows}
        rows += [_row(view) for circuit_id, view in sorted(limited.items()) if circuit_id not in known]
    return [each | _limit(limited.get(each["circuit_id"])) for each in rows]


def _limit(view: CircuitView | None) -> dict[str, Any]:
    if view is None or view.pace is None:
        return {"admitted_rate": None, "active_processes": None, "pace": None}
    return {
        "admitted_rate": view.admitted_rate,
        "active_processes": view.active_processes,
        "pace": _pace(view.pace),
    }


def _pace(pace: PaceView) -> dict[str, Any]:
    limits = [asdict(each) | {"until": iso(each.until), "paused_until": iso(each.paused_until)} for each in pace.limits]
    return {"mode": pace.mode, "wait_s": pace.wait_s, "limits": limits}


def _row(view: CircuitView) -> dict[str, Any]:
    """Return a circuit whose records tell nothing but its limits, so that none is stored."""
    return {
        "circuit_id": view.circuit_id,
        "tool_name": view.tool_name,
        "family": view.family,
        "scope": view.scope,
        "target": view.target,
        "state": view.state,
        "previous_state": None,
        "version": view.version,
        "generation": view.generation,
        "cause": None if view.cause is None else msgspec.to_builtins(view.cause),
        "changed_at": iso(view.changed_at),
        "open_until": iso(view.open_until),
        "attempt": view.attempt,
        "admitted_share": view.admitted_share,
        "leases": [],
        "counts": {},
        "last_error": view.last_error,
        "mode": view.mode,
        "fallback": list(view.fallback),
        "opens": 0,
        "last_opened_at": None,
        "last_closed_at": None,
    }
