"""PagerDuty Events API v2: trigger, acknowledge and resolve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from switchgear_alerts import texts
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.receivers.base import JSON_TYPE, Context, OnceReceiver, PlainUrlOptions, Progress, to_json
from switchgear_alerts.receivers.fitting import fitted, json_bytes
from switchgear_alerts.receivers.webhook import incident
from switchgear_alerts.secret import Secret
from switchgear_schemas.times import rfc3339

_LONGEST_SUMMARY = 1024
_MOST_BYTES = 400_000
"""Of the list of circuits. PagerDuty takes an event of 512 kB."""


class PagerDutyOptions(PlainUrlOptions):
    """Options of a PagerDuty service."""

    takes_digest: ClassVar[bool] = False

    type: Literal["pagerduty"]
    routing_key: Secret
    url: str = "https://events.pagerduty.com"


class PagerDutyReceiver(OnceReceiver):
    """Sends one event for an incident, or for a group that opened together."""

    def __init__(self, options: PagerDutyOptions, context: Context) -> None:
        self._routing_key = options.routing_key.reveal_line("routing_key", ascii_only=True)
        super().__init__(options.outbound(self._routing_key))
        self._url = f"{options.url.rstrip('/')}/v2/enqueue"
        self._context = context
        self._progress = Progress()

    async def send(self, message: Message) -> str:
        """Send the events of a message that were not taken yet."""
        self._progress.begin(message.id)
        statuses: dict[int, int] = {}
        found = {
            f"{event['event_action']} {event['dedup_key']}": event
            for event in events(message, self._routing_key, self._context)
        }
        for name in self._progress.left(found):
            reply = await self._http.post(self._url, to_json(found[name]), JSON_TYPE)
            self._progress.taken.add(name)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
        return (
            ", ".join(f"HTTP {status}{f' ({count} events)' if count > 1 else ''}" for status, count in statuses.items())
            or "nothing to send"
        )


def events(message: Message, routing_key: str, context: Context) -> list[dict[str, Any]]:
    """Return the events of a message. Members of a group share a ``dedup_key``, and the last one to close resolves it."""
    by_thread: dict[str, list[Change]] = {}
    for change in message.changes:
        by_thread.setdefault(change.thread or change.incident, []).append(change)
    found = []
    for thread, changes in by_thread.items():
        event = {"routing_key": routing_key, "dedup_key": thread}
        if message.kind == "resolved":
            if any(change.last for change in changes):
                found.append({**event, "event_action": "resolve"})
            continue
        found.append({**event, **_trigger(message, changes, context)})
        # A group that opened before may have other circuits, which are not acknowledged.
        all_there = message.kind == "opened" or all(thread == change.incident for change in changes)
        if all_there and all(change.acknowledged or change.facts.state == "forced_open" for change in changes):
            found.append({**event, "event_action": "acknowledge"})
    return found


def _trigger(message: Message, changes: Sequence[Change], context: Context) -> dict[str, Any]:
    alone = changes[0] if len(changes) == 1 else None
    shown = message if len(changes) == len(message.changes) else None
    summary = texts.title(shown) if shown is not None else texts.title_of(changes[0])
    why = changes[0].facts.why if alone is not None else "; ".join(texts.line(change) for change in changes)
    found: dict[str, Any] = {
        "event_action": "trigger",
        "client": "Switchgear",
        "payload": {
            "summary": f"{summary}: {why}"[:_LONGEST_SUMMARY] if why else summary[:_LONGEST_SUMMARY],
            "source": context.source,
            "severity": texts.worst(changes),
            "timestamp": rfc3339(min(change.opened_at for change in changes)),
            "component": (changes[0].facts.tool_name if alone is not None else context.source)[:255],
            "group": (changes[0].facts.family or context.source)[:255],
            "class": "circuit open",
            "custom_details": incident(alone)
            if alone is not None
            else {"circuits": fitted([texts.line(each) for each in changes], _MOST_BYTES, json_bytes)},
        },
    }
    if (link := texts.console_link(context.console_url, changes)) is not None:
        found |= {"client_url": link, "links": [{"href": link, "text": "Console"}]}
    return found
