"""The life of incidents, as pure functions: a circuit's records and the time give the changes.

An incident begins when a circuit opens and ends when it closes. Half-open is part of it. A circuit that opens again and again within
a short time has one incident, which ends when the circuit has stayed closed for a while.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from switchgear_alerts.facts import Seen
from switchgear_alerts.messages import Change, ChangeKind, Facts, incident_id
from switchgear_schemas.enums import REFUSING

_PASSED_BY: Final = {"disabled": "an operator disabled the circuit", "metrics_only": "the circuit only counts now"}
_REMOVED: Final = frozenset({"user", "session", "tenant", "target"})
"""Scopes of circuits that are removed when they are idle. If they come back, they count their generations from 0."""
_MOST_OPENINGS: Final = 50


class FlapRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a circuit flaps. Durations are in seconds.

    Attributes:
        opens: It opened this often ``within_s``. 0: never.
        within_s: The period.
        settle_s: The incident of a flapping circuit ends when it was closed for this long.
    """

    opens: int = 3
    within_s: float = 900.0
    settle_s: float = 300.0


class Incident(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open incident.

    Attributes:
        id: See :func:`~switchgear_alerts.messages.incident_id`.
        opened_at: Seconds since 1970.
        facts: The circuit, with the cause of its opening.
        held: The last state that refuses calls: ``open`` or ``forced_open``.
        opens: How often the circuit opened.
        flapping: See :class:`FlapRules`.
        updates: Changes of the kind ``updated`` so far.
        closed_at: When a flapping circuit closed; None while it is open.
        reopened_at: When a flapping circuit opened again the last time; None: it opened once.
    """

    id: str
    opened_at: float
    facts: Facts
    held: str = "open"
    opens: int = 1
    flapping: bool = False
    updates: int = 0
    closed_at: float | None = None
    reopened_at: float | None = None

    @property
    def open_since(self) -> float | None:
        """Since when the circuit is open; None while it is closed."""
        if self.closed_at is not None:
            return None
        return self.opened_at if self.reopened_at is None else self.reopened_at


class CircuitIncidents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one circuit.

    Attributes:
        version: Of the last record.
        changed_at: Of the last record.
        generation: Of the last record.
        openings: When it opened lately, to recognise flapping.
        incident: The open incident.
    """

    version: int = 0
    changed_at: float = 0.0
    generation: int = 0
    openings: tuple[float, ...] = ()
    incident: Incident | None = None

    @property
    def idle(self) -> bool:
        """Nothing needs to be remembered."""
        return self.incident is None and not self.openings


def observe(
    before: CircuitIncidents, seen: Seen, rules: FlapRules, fleet: str = ""
) -> tuple[CircuitIncidents, list[Change]]:
    """Return the circuit's incidents after a record, and what changed. ``fleet`` is a part of the ids of new incidents.

    A record that is older than the last one changes nothing. One with a lower version but a later time is from a topic that was
    created again.
    """
    if seen.version <= before.version and seen.changed_at <= before.changed_at:
        return before, []
    after = replace(before, version=seen.version, changed_at=seen.changed_at, generation=seen.generation)
    incident = before.incident
    if incident is None:
        return _opened(after, seen, rules, fleet) if seen.facts.state in REFUSING else (after, [])
    if seen.facts.state in REFUSING:
        return _still_open(after, incident, seen, rules, same_stay=seen.generation == before.generation)
    if seen.facts.state == "half_open":
        facts = replace(
            incident.facts,
            state="half_open",
            last_error=seen.facts.last_error or incident.facts.last_error,
            stands_until=seen.facts.stands_until,
        )
        return replace(after, incident=replace(incident, facts=facts)), []
    if incident.flapping and seen.facts.state == "closed":
        closed_at = seen.changed_at if incident.closed_at is None else incident.closed_at
        facts = replace(incident.facts, state="closed")
        return replace(after, incident=replace(incident, facts=facts, closed_at=closed_at)), []
    note = _PASSED_BY.get(seen.facts.state, seen.facts.why)
    return _resolved(after, incident, seen.changed_at, note, state=seen.facts.state)


def settle(before: CircuitIncidents, now: float, rules: FlapRules) -> tuple[CircuitIncidents, list[Change]]:
    """Return the circuit's incidents at ``now``: an incident of a circuit that no longer flaps ends, old openings are forgotten."""
    openings = _recent(before.openings, now, rules)
    after = before if openings == before.openings else replace(before, openings=openings)
    incident = after.incident
    if incident is None or incident.closed_at is None or now < incident.closed_at + rules.settle_s:
        return after, []
    note = f"it stayed closed after it had opened {incident.opens} times in this incident"
    return _resolved(replace(after, openings=()), incident, incident.closed_at, note, state="closed")


def remove(before: CircuitIncidents, at: float) -> tuple[CircuitIncidents, list[Change]]:
    """Return the circuit's incidents after the circuit itself was removed."""
    if before.incident is None:
        return CircuitIncidents(), []
    _, changes = _resolved(before, before.incident, at, "the circuit was removed", state="closed")
    return CircuitIncidents(), changes


def change_of(incident: Incident, kind: ChangeKind, at: float, note: str = "", *, acknowledged: bool = False) -> Change:
    """Return a change of the incident."""
    suffix = f"{kind}-{incident.updates}" if kind == "updated" else kind
    return Change(
        id=f"{incident.id}:{suffix}",
        kind=kind,
        incident=incident.id,
        at=at,
        opened_at=incident.opened_at,
        facts=incident.facts,
        opens=incident.opens,
        flapping=incident.flapping,
        note=note,
        acknowledged=acknowledged,
    )


def _opened(after: CircuitIncidents, seen: Seen, rules: FlapRules, fleet: str) -> tuple[CircuitIncidents, list[Change]]:
    at = seen.changed_at
    removed_at = at if seen.facts.scope in _REMOVED else None
    openings = (*_recent(after.openings, at, rules), at) if rules.opens else ()
    flapping = 0 < rules.opens <= len(openings)
    incident = Incident(
        id=incident_id(seen.facts.circuit_id, seen.generation, removed_at, fleet=fleet),
        opened_at=at,
        facts=seen.facts,
        held=seen.facts.state,
        flapping=flapping,
        opens=1,
    )
    note = f"it opened {len(openings)} times within {_minutes(rules.within_s)}" if flapping else ""
    return replace(after, openings=openings[-_MOST_OPENINGS:], incident=incident), [
        change_of(incident, "opened", at, note)
    ]


def _still_open(
    after: CircuitIncidents, incident: Incident, seen: Seen, rules: FlapRules, *, same_stay: bool
) -> tuple[CircuitIncidents, list[Change]]:
    at, facts = seen.changed_at, seen.facts
    openings = after.openings
    last_error = facts.last_error or incident.facts.last_error
    if same_stay and incident.held == "forced_open" and facts.rule != "command":
        # A new policy, for instance. The command stands.
        facts = replace(incident.facts, last_error=last_error, fallback=facts.fallback)
    forced = facts.state == "forced_open" and incident.held != "forced_open"
    again = incident.closed_at is not None
    if facts.state == incident.held == "open" and not again:
        # A failed probe: why the circuit opened at first says more.
        facts = replace(facts, why=incident.facts.why, last_error=last_error)
    if again:
        openings = (*_recent(openings, at, rules), at)[-_MOST_OPENINGS:]
    incident = replace(
        incident,
        facts=facts,
        held=facts.state,
        closed_at=None,
        reopened_at=at if again else incident.reopened_at,
        opens=incident.opens + again,
        updates=incident.updates + forced,
    )
    after = replace(after, openings=openings, incident=incident)
    if not forced:
        return after, []
    return after, [change_of(incident, "updated", at, facts.why, acknowledged=True)]


def _resolved(
    after: CircuitIncidents, incident: Incident, at: float, note: str, *, state: str
) -> tuple[CircuitIncidents, list[Change]]:
    incident = replace(incident, facts=replace(incident.facts, state=state, open_until=None))
    return replace(after, incident=None), [change_of(incident, "resolved", max(at, incident.opened_at), note)]


def _recent(openings: tuple[float, ...], now: float, rules: FlapRules) -> tuple[float, ...]:
    return tuple(at for at in openings if now - at < rules.within_s)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
