"""Circuit records as the console shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast, overload

import msgspec

from switchgear.follower.view import CircuitView, Instant, read_instant
from switchgear_api.console.shapes import CircuitRecord, Override, Pace, State
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.explain import explain
from switchgear_schemas.pacing import DEMAND_S

VERBS: Final = ("force_open", "disable", "metrics_only", "auto", "close", "reset")
_COMMAND_OF: Final = {
    "forced_open": "force_open",
    "open": "force_open",
    "disabled": "disable",
    "metrics_only": "metrics_only",
}


def _instant(kind: type, value: Any) -> Instant:
    return Instant(value.timestamp()) if isinstance(value, datetime) else read_instant(kind, value)


def stored_record(row: Mapping[str, Any]) -> CircuitView:
    """Return a circuit from a stored row of ``CircuitsRepository``."""
    return msgspec.convert(dict(row), CircuitView, dec_hook=_instant, builtin_types=(datetime,))


@overload
def iso(moment: float | datetime) -> str: ...


@overload
def iso(moment: float | datetime | None) -> str | None: ...


def iso(moment: float | datetime | None) -> str | None:
    """Return a time as ISO 8601 in UTC, with milliseconds. A number is seconds since 1970."""
    if moment is None:
        return None
    at = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sentence(cause: Any, counts: Any, state: str) -> str | None:
    """Return why a circuit is in its state, as a sentence. None if its record has no cause."""
    words = explain(cause, counts, state=state)
    return f"{words[:1].upper()}{words[1:]}." if words else None


def document(text: str) -> dict[str, Any] | None:
    """Return what a JSON column of ``circuit_transitions`` holds; None if it is empty."""
    return json.loads(text) if text else None


def circuit_part(circuit: CircuitView) -> CircuitRecord:
    """Return the fields of one circuit, as ``now`` and ``live`` have them."""
    cause, lease = circuit.cause, circuit.leases[0] if circuit.leases else None
    state: State = "forced_open" if circuit.forced else circuit.state
    return {
        "tool": circuit.tool_name,
        "circuit_id": circuit.circuit_id,
        "family": circuit.family,
        "state": state,
        "since": iso(circuit.changed_at),
        "version": circuit.version,
        "why": sentence(cause, None, circuit.state),
        "rule": None if cause is None else cause.rule,
        "value": None if cause is None else cause.value,
        "threshold": None if cause is None else cause.threshold,
        "sample": None if cause is None else cause.sample,
        "reporters": None if cause is None else cause.reporters,
        "last_error": circuit.last_error,
        "next_probe_at": iso(circuit.open_until) if state == "open" else None,
        "lease": None if lease is None else {"holder": lease.emitter_id, "expires_at": iso(lease.expires_at)},
        "permits_left": circuit.permits_left,
        "ramp": circuit.admitted_share if circuit.recovers else None,
        "pace": _pace(circuit),
        "expires_at": iso(circuit.stands_until),
        "override": _override(circuit, state),
    }


def no_circuit(tool: str, family: str | None) -> CircuitRecord:
    """Return the same fields for a tool without a record: its circuit is closed and has never changed."""
    known = {
        "tool": tool,
        "circuit_id": circuit_id(tool),
        "family": family,
        "state": "closed",
        "version": 0,
        "permits_left": 0,
    }
    return cast("CircuitRecord", dict.fromkeys(CircuitRecord.__annotations__) | known)


def _pace(circuit: CircuitView) -> Pace | None:
    limit = circuit.limit
    if circuit.pace is None or limit is None:
        return None
    return {
        "kept": circuit.keeps_pace,
        "rate": limit.rate,
        "period_s": limit.period_s,
        "processes": circuit.active_processes,
        "asked": limit.asked / DEMAND_S,
        "limited": limit.limited,
        "refused": limit.refused,
        "waited": limit.waited,
        "wait_s": limit.waited_s / max(1, limit.waited),
        "paused_until": iso(limit.paused_until),
    }


def _override(circuit: CircuitView, state: str) -> Override | None:
    cause = circuit.cause
    if cause is None or cause.rule != "command" or state not in _COMMAND_OF:
        return None
    return {
        "command": _COMMAND_OF[state],
        "actor": cause.actor,
        "reason": cause.reason,
        "at": iso(circuit.changed_at),
    }


def advice(part: Mapping[str, Any], kind: str | None) -> str | None:
    """Return what an operator should do about a tool; None if nothing."""
    state = part["state"]
    if part["override"] is not None or state in {"forced_open", "disabled", "metrics_only"}:
        ends = part["expires_at"] is not None or part["next_probe_at"] is not None  # forced open for a time
        until = "It ends by itself." if ends else "It holds until you end it."
        return f"An operator or the policy decides here. {until} Use auto to let the rules decide again."
    if state == "half_open":
        return "Wait for the probe calls: they decide."
    if part["ramp"] is not None:
        return "Wait: the tool recovers, and a share of the calls is admitted."
    return _ADVICE.get((state, kind)) or _ADVICE.get((state, None))


_REJECTS: Final = "The tool answers and rejects the arguments. Correct the callers' prompts or schemas."
_ADVICE: Final[dict[tuple[str, str | None], str]] = {
    ("open", None): "Check the server. Calls are refused until a probe succeeds. Force it open if it must stay off.",
    ("open", "rejects_arguments"): _REJECTS,
    ("closed", "rejects_arguments"): _REJECTS,
    ("closed", "down"): "Many calls fail, and the circuit is closed. Check the server, or force it open.",
}
