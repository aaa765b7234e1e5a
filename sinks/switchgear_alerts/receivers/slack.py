"""Slack, by an incoming webhook."""

from __future__ import annotations

from typing import Any, Final, Literal

from switchgear_alerts import texts
from switchgear_alerts.messages import Message
from switchgear_alerts.receivers.base import ChatOptions, ChatReceiver
from switchgear_alerts.receivers.fitting import cut, paragraphs

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
    lines = paragraphs(message, _LONGEST_SECTION)
    open_now = [lines.pop()] if message.digest is not None else []
    sections = ["\n".join(lines), *open_now]
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(cut(title, _LONGEST_HEADER))}]
    blocks += [{"type": "section", "text": _plain(each)} for each in sections]
    about = [f"Severity: {texts.worst(message.changes)}"] if message.changes else []
    about += [f"Incident: {message.changes[0].incident}"] if len(message.changes) == 1 else []
    elements = [_plain(each) for each in about]
    if (link := texts.console_link(console_url, message.changes)) is not None:
        elements.append({"type": "mrkdwn", "text": f"<{_escaped(link)}|Console>", "verbatim": True})
    if elements:
        blocks.append({"type": "context", "elements": elements})
    return {"text": _escaped(cut(title, _LONGEST_SECTION)), "blocks": blocks}


def _plain(text: str) -> dict[str, Any]:
    """Return a text that Slack shows as it is: markup, mentions and emoji in a tool's name or an error do nothing."""
    return {"type": "plain_text", "text": text, "emoji": False}


def _escaped(text: str) -> str:
    """Return a text in which Slack finds no links and no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
