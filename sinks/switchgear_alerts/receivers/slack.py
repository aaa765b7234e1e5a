"""Slack, by an incoming webhook."""

from __future__ import annotations

from typing import Any, Final, Literal

from switchgear_alerts import texts
from switchgear_alerts.messages import Message
from switchgear_alerts.receivers.base import ChatOptions, ChatReceiver

_SIGNS: Final = {"opened": "🔴", "updated": "🟠", "resolved": "🟢", "digest": "📋"}
_LONGEST_HEADER: Final = 150
_LONGEST_SECTION: Final = 3000


class SlackOptions(ChatOptions):
    """Options of a Slack channel. The URL of an incoming webhook is a secret."""

    type: Literal["slack"]


class SlackReceiver(ChatReceiver):
    """Sends one message with blocks."""

    @staticmethod
    def payload(message: Message, console_url: str | None) -> dict[str, Any]:
        """Return the body of the request."""
        return payload(message, console_url)


def payload(message: Message, console_url: str | None) -> dict[str, Any]:
    """Return the body of the request. ``text`` is what notifications show."""
    title = f"{_SIGNS[message.kind]} {texts.title(message)}"
    body = "\n".join(map(_escaped, texts.paragraphs(message)))
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(title, _LONGEST_HEADER)}},
        {"type": "section", "text": {"type": "mrkdwn", "text": _cut(body, _LONGEST_SECTION), "verbatim": True}},
    ]
    about = [f"Severity: {texts.worst(message.changes)}"] if message.changes else []
    about += [f"Incident: {message.changes[0].incident}"] if len(message.changes) == 1 else []
    if (link := texts.console_link(console_url, message.changes)) is not None:
        about.append(f"<{_escaped(link)}|Console>")
    if about:
        elements = [
            {"type": "mrkdwn", "text": each if each.startswith("<") else _escaped(each), "verbatim": True}
            for each in about
        ]
        blocks.append({"type": "context", "elements": elements})
    return {"text": _escaped(_cut(title, _LONGEST_SECTION)), "blocks": blocks}


def _escaped(text: str) -> str:
    """Return a text in which Slack finds no links and no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
