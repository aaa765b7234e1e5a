"""What is sent: the facts of a circuit, the change of an incident, and the message that holds changes.

They are stored in the alerts topic until they are delivered, so fields may only be added, with a default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal
from urllib.parse import quote

import msgspec

ChangeKind = Literal["opened", "updated", "resolved"]
Severity = Literal["critical", "error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "error", "warning", "info")
GROUP: Final = "group-"
"""Begins the id of a message with several changes, and the thread of the incidents that opened in it."""
_LONGEST_ID: Final = 180
"""Characters of an incident's id. PagerDuty takes 255 in a dedup_key, and the id of a change is longer."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A circuit as its record says, with the cause in words. Times are seconds since 1970."""

    circuit_id: str
    tool_name: str
    state: str
    family: str | None = None
    scope: str = "tool"
    why: str = ""
    rule: str = ""
    value: float | None = None
    threshold: float | None = None
    sample: int | None = None
    reporters: int | None = None
    actor: str | None = None
    last_error: str | None = None
    open_until: float | None = None
    stands_until: float | None = None
    fallback: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of an incident.

    Attributes:
        id: The incident's id and the change. A repeated delivery has the same one.
        kind: What happened.
        incident: The incident's id.
        at: When, by the broker's clock.
        opened_at: When the incident opened.
        facts: The circuit.
        severity: As the route says.
        opens: How often the circuit opened in this incident.
        flapping: It opened and closed several times within a short time.
        note: What changed, in words.
        acknowledged: An operator has acted on it.
        thread: What the receiver knows the incident by: its own id, or that of the message with which a group opened.
        last: A resolved change after which no incident of the thread is open.
    """

    id: str
    kind: ChangeKind
    incident: str
    at: float
    opened_at: float
    facts: Facts
    severity: Severity = "error"
    opens: int = 1
    flapping: bool = False
    note: str = ""
    acknowledged: bool = False
    thread: str = ""
    last: bool = True


class ToolTally(msgspec.Struct, frozen=True, kw_only=True):
    """What one circuit did since the last digest. Durations are in seconds."""

    circuit_id: str
    opens: int = 0
    open_s: float = 0.0
    longest_s: float = 0.0


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of a period: its circuits with the most opens first, and those that are open now."""

    since: float
    until: float
    opens: int
    tools: tuple[ToolTally, ...] = ()
    open_now: tuple[str, ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message to one receiver.

    Attributes:
        id: Stays the same when the message is sent again.
        receiver: The receiver's name in the file.
        kind: The kind of all its changes, or ``digest``.
        sequence: Messages of a receiver are sent in this order.
        created_at: Seconds since 1970.
        changes: At most one for each circuit.
        digest: The summary, in a digest.
    """

    id: str
    receiver: str
    kind: ChangeKind | Literal["digest"]
    sequence: int
    created_at: float
    changes: tuple[Change, ...] = ()
    digest: Digest | None = None


def incident_id(circuit_id: str, generation: int, opened_at: float | None = None, *, fleet: str = "") -> str:
    """Return the id of the incident that began with this generation of the circuit. It fits into an HTTP header.

    Args:
        circuit_id: The circuit.
        generation: Of the record that opened it.
        opened_at: When it opened, in seconds since 1970, if the circuit can be removed and then counts its generations from 0.
        fleet: What tells this fleet from others, which may have a circuit of the same name and send to the same place.
    """
    whole = f"{fleet}/{circuit_id}" if fleet else circuit_id
    name = quote(whole, safe=":|=@/_-.,+")
    if len(name) > _LONGEST_ID:
        name = f"{name[: _LONGEST_ID - 40]}~{hashlib.sha256(whole.encode()).hexdigest()[:24]}"
    return f"{name}@{generation}" if opened_at is None else f"{name}@{generation}-{int(opened_at)}"


def group_id(changes: Iterable[Change]) -> str:
    """Return the id of a message with several changes, which follows from them."""
    joined = "\n".join(sorted(change.id for change in changes))
    return f"{GROUP}{hashlib.sha256(joined.encode()).hexdigest()[:32]}"
