"""What became of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from switchgear_cli.reads.formats import named, plain
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.command import Command
from switchgear_schemas.explain import explain
from switchgear_schemas.policy import BreakerPolicy

Outcome = Literal["applied", "unchanged", "sent", "refused", "unconfirmed"]

STATES = {
    "force_open": ("forced_open", "open"),
    "close": ("closed",),
    "reset": ("closed",),
    "disable": ("disabled",),
    "metrics_only": ("metrics_only",),
}
"""The states that show a command; any shows ``auto`` and ``set_policy``."""


@dataclass(frozen=True, slots=True)
class Given:
    """``circuit``: the record that shows the command, or, where nothing changed, the newest one; None where there is none."""

    command: Command
    outcome: Outcome
    circuit: Circuit | None = None
    reason: str = ""

    @property
    def done(self) -> bool:
        """The command is in force, or nobody asked to wait for that."""
        return self.outcome in {"applied", "unchanged", "sent"}

    def sentence(self) -> str:
        """For a person."""
        name, reason = named(self.command.circuit_id or self.command.tool_name), plain(self.reason)
        if self.outcome == "sent":
            return f"{name}: sent, not waited for."
        if self.outcome in {"refused", "unconfirmed"}:
            return f"{name}: {reason}"
        if self.command.policy is not None:
            return f"{name}: {self._policy(self.command.policy)}{f' ({reason})' if reason else ''}."
        if self.outcome == "unchanged" and self.reason:
            return f"{name}: nothing changed ({reason})."
        if self.outcome == "unchanged":
            return f"{name}: {_state(self.circuit)} already{_evidence(self.circuit)}; nothing changed."
        return f"{name}: {_state(self.circuit)}{_why(self.circuit)}."

    def _policy(self, policy: BreakerPolicy) -> str:
        unchanged = self.outcome == "unchanged"
        if not policy.model_fields_set:
            return "nothing was set; nothing changed" if unchanged else "what was set is taken back"
        return "these values are set already; nothing changed" if unchanged else "the policy is set"

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "command_id": str(self.command.command_id),
            "tool_name": self.command.tool_name,
            "verb": self.command.verb,
            "outcome": self.outcome,
            "reason": self.reason,
            "circuit": None if self.circuit is None else self.circuit.model_dump(mode="json"),
        }


def shows(circuit: Circuit, command: Command) -> bool:
    """The record came of this command, or of one that says the same."""
    cause = circuit.cause
    if cause is None or cause.actor != command.actor or (cause.reason or "") != command.reason:
        return False
    if command.verb == "set_policy":
        return cause.rule == "set_policy"
    return cause.rule == "command" and circuit.state in STATES.get(command.verb, (circuit.state,))


def _state(circuit: Circuit | None) -> str:
    if circuit is None:
        return "closed"
    until = circuit.open_until if circuit.state == "open" else circuit.stands_until
    words = circuit.state.replace("_", " ")
    return f"{words} until {until:%Y-%m-%d %H:%M:%S} UTC" if until is not None else words


def _evidence(circuit: Circuit | None) -> str:
    """Say why it is in its state, unless an operator commanded it."""
    if circuit is None or circuit.cause is None or circuit.cause.actor:
        return ""
    return f": {plain(explain(circuit.cause, circuit.counts, state=circuit.state))}"


def _why(circuit: Circuit | None) -> str:
    cause = None if circuit is None else circuit.cause
    if circuit is None or cause is None:
        return ""
    reason = f": {plain(cause.reason)}" if cause.reason else ""
    return f", version {circuit.version}, by {plain(cause.actor)}{reason}"
