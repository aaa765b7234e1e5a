"""An example incident, to try a receiver."""

from __future__ import annotations

import uuid

from msgspec.structs import replace

from switchgear_alerts.incidents import Incident, change_of
from switchgear_alerts.messages import Facts, Message, incident_id

_TOOL = "switchgear:example"


def example_messages(receiver: str, now: float) -> list[Message]:
    """Return an incident's opening and its end, with an id of their own.

    Args:
        receiver: The receiver's name.
        now: Seconds since 1970.
    """
    facts = Facts(
        circuit_id=_TOOL,
        tool_name=_TOOL,
        state="open",
        why="9 of 10 calls within 60 s failed (90 %; the limit is 50 %); reported by at least 2 processes",
        rule="failure_rate",
        value=0.9,
        threshold=0.5,
        sample=10,
        reporters=2,
        last_error="ConnectionError: this is an example, sent by `switchgear alerts test`",
        open_until=now + 30,
    )
    incident = Incident(id=f"{incident_id(_TOOL, 1)}-{uuid.uuid4().hex[:8]}", opened_at=now, facts=facts)
    opened = change_of(incident, "opened", now)
    closed = replace(incident, facts=replace(facts, state="closed", open_until=None))
    resolved = change_of(closed, "resolved", now + 1, "3 probe calls succeeded")
    return [
        Message(
            id=change.id,
            receiver=receiver,
            kind=change.kind,
            sequence=number,
            created_at=now,
            changes=(replace(change, thread=incident.id, severity="info"),),
        )
        for number, change in enumerate((opened, resolved), 1)
    ]
