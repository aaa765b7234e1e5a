"""Values of alerts, made for unit tests."""

from __future__ import annotations

from typing import Any

from switchgear_alerts.config import AlertsFile, parse
from switchgear_alerts.facts import Seen
from switchgear_alerts.messages import Change, Facts, Message, incident_id

NOON = 1_795_262_400.0
"""2026-11-21 12:00 UTC, a Saturday."""
ONE_HOOK = """
[receivers.hook]
type = "webhook"
url = "https://example.com/hook"
secrets = ["env:HOOK_SECRET"]
"""


def alerts_file(text: str) -> AlertsFile:
    """Return the rules of a file with the receiver ``hook`` and more text."""
    return parse(f"{text}\n{ONE_HOOK}", "alerts.toml")


def facts(circuit: str = "search", state: str = "open", **more: Any) -> Facts:
    """Return the facts of a circuit."""
    given: dict[str, Any] = {
        "circuit_id": circuit,
        "tool_name": circuit,
        "state": state,
        "why": "5 calls in a row failed (the limit is 5)",
        "rule": "consecutive_failures",
        "value": 5.0,
        "threshold": 5.0,
        "last_error": "ConnectionError: refused",
        "open_until": NOON + 30,
    }
    return Facts(**(given | more))


def seen(circuit: str, state: str, generation: int, at: float, **more: Any) -> Seen:
    """Return a record of a circuit."""
    return Seen(facts(circuit, state, **more), generation, generation, at)


def change(circuit: str = "search", kind: Any = "opened", **more: Any) -> Change:
    """Return a change of the first incident of a circuit."""
    incident = incident_id(circuit, 1)
    given: dict[str, Any] = {
        "id": f"{incident}:{kind}",
        "kind": kind,
        "incident": incident,
        "at": NOON + (60 if kind == "resolved" else 0),
        "opened_at": NOON,
        "facts": facts(circuit, "closed" if kind == "resolved" else "open"),
        "thread": incident,
        "note": "3 probe calls succeeded" if kind == "resolved" else "",
    }
    return Change(**(given | more))


def message(*changes: Change, receiver: str = "hook", **more: Any) -> Message:
    """Return a message with these changes."""
    given: dict[str, Any] = {
        "id": changes[0].id if len(changes) == 1 else "group-1",
        "receiver": receiver,
        "kind": changes[0].kind if changes else "digest",
        "sequence": 1,
        "created_at": NOON,
        "changes": changes,
    }
    return Message(**(given | more))
