"""Read a record of the circuits topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from switchgear_alerts.messages import Facts
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.explain import explain
from switchgear_schemas.visible import sentence

_LONGEST_TEXT: Final = 500
_YEARS: Final = range(1970, 9999)
"""Years in which a circuit can have changed. Sums of other times don't fit into a date."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A circuit's record: what an incident keeps, and where the record stands among the circuit's others."""

    facts: Facts
    version: int
    generation: int
    changed_at: float


class UnreadableRecordError(Exception):
    """The value is no circuit record."""


def read_circuit(value: bytes) -> Seen:
    """Return what a record says. A circuit that an operator opened for a time is ``forced_open``, as if it had no end.

    Raises:
        UnreadableRecordError: It isn't a circuit record, or the time of its change can't be.
    """
    try:
        circuit = Circuit.from_bytes(value)
    except InvalidExecutionError as error:
        raise UnreadableRecordError(error.message) from None
    if circuit.changed_at.year not in _YEARS:
        raise UnreadableRecordError(f"changed_at: the year {circuit.changed_at.year} can't be")
    cause, state, stands_until = circuit.cause, str(circuit.state), circuit.stands_until
    if state == "open" and cause is not None and cause.rule == "command":
        state, stands_until = "forced_open", stands_until or circuit.open_until
    return Seen(
        facts=Facts(
            circuit_id=circuit.circuit_id,
            tool_name=circuit.tool_name,
            state=state,
            family=circuit.family,
            scope=circuit.scope,
            why=_short(explain(cause, circuit.counts, state=circuit.state)),
            rule="" if cause is None else cause.rule[:100],
            value=None if cause is None else cause.value,
            threshold=None if cause is None else cause.threshold,
            sample=None if cause is None else cause.sample,
            reporters=None if cause is None else cause.reporters,
            actor=None if cause is None or not cause.actor else _short(cause.actor),
            last_error=None if not circuit.last_error else _short(circuit.last_error),
            open_until=None if circuit.open_until is None else circuit.open_until.timestamp(),
            stands_until=None if stands_until is None else stands_until.timestamp(),
            fallback=circuit.fallback[:10],
        ),
        version=circuit.version,
        generation=circuit.generation,
        changed_at=circuit.changed_at.timestamp(),
    )


def _short(text: str) -> str:
    text = sentence(text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
