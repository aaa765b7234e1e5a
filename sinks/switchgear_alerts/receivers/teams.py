"""Microsoft Teams, by the URL of a Workflow ("When a Teams webhook request is received") and an Adaptive Card."""

from __future__ import annotations

from typing import Any, Final, Literal

from switchgear_alerts import texts
from switchgear_alerts.messages import Message
from switchgear_alerts.receivers.base import ChatOptions, ChatReceiver
from switchgear_alerts.receivers.fitting import json_bytes, paragraphs

_COLOURS: Final = {"opened": "Attention", "updated": "Warning", "resolved": "Good", "digest": "Default"}
_CARD_TYPE: Final = "application/vnd.microsoft.card.adaptive"
_MOST_BYTES: Final = 14_000
"""Of the body's lines. Teams takes a message of 28 kB, and the title stands in it twice."""


class TeamsOptions(ChatOptions):
    """Options of a Teams channel. The URL of a Workflow is a secret."""

    type: Literal["teams"]


class TeamsReceiver(ChatReceiver):
    """Sends one Adaptive Card."""

    @staticmethod
    def payload(message: Message, console_url: str | None) -> dict[str, Any]:
        """Return the body of the request."""
        return payload(message, console_url)


def payload(message: Message, console_url: str | None) -> dict[str, Any]:
    """Return the body of the request."""
    content = card(message, console_url)
    return {"type": "message", "attachments": [{"contentType": _CARD_TYPE, "contentUrl": None, "content": content}]}


def card(message: Message, console_url: str | None) -> dict[str, Any]:
    """Return the Adaptive Card. Runs of text show names as they are, without Markdown."""
    heading = {
        "type": "TextRun",
        "text": texts.title(message),
        "weight": "Bolder",
        "size": "Large",
        "color": _COLOURS[message.kind],
    }
    body: list[dict[str, Any]] = [{"type": "RichTextBlock", "inlines": [heading]}]
    body += [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": each}]}
        for each in paragraphs(message, _MOST_BYTES, json_bytes)
    ]
    found: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": texts.title(message),
        "msteams": {"width": "Full"},
        "body": body,
    }
    if message.changes:
        facts = [{"title": "Severity", "value": texts.worst(message.changes)}]
        facts += [{"title": "Incident", "value": message.changes[0].incident}] if len(message.changes) == 1 else []
        body.append({"type": "FactSet", "facts": facts})
    if (link := texts.console_link(console_url, message.changes)) is not None:
        found["actions"] = [{"type": "Action.OpenUrl", "title": "Console", "url": link}]
    return found
