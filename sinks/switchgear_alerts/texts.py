"""The words of a message, as plain text. Receivers only lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from switchgear_alerts.durations import in_words
from switchgear_alerts.messages import Change, Digest, Facts, Message
from switchgear_schemas import visible

MOST_LINES: Final = 20
"""Circuits that a text for people lists."""
_HEADS: Final = {"opened": "Circuit open", "updated": "Circuit still open", "resolved": "Circuit closed"}
_HEADS_OF_MANY: Final = {
    "opened": "circuits opened",
    "updated": "circuits are still open",
    "resolved": "circuits closed",
}


def name_of(facts: Facts) -> str:
    """Return the circuit's name, safe to show."""
    if facts.scope == "family":
        return f"{visible.name(facts.tool_name)} (all its tools)"
    return visible.name(facts.circuit_id)


def moment(at_s: float) -> str:
    """Return ``2026-11-26 10:32:05 UTC``."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def title(message: Message) -> str:
    """Return the headline of a message."""
    if message.digest is not None:
        return f"Switchgear: {_times(message.digest.opens, 'circuit opened', 'circuit openings')} since {moment(message.digest.since)}"
    if len(message.changes) == 1:
        return title_of(message.changes[0])
    families = {change.facts.family for change in message.changes}
    where = f" in {visible.name(family)}" if len(families) == 1 and (family := next(iter(families))) else ""
    return f"{len(message.changes)} {_HEADS_OF_MANY[message.kind]}{where}"


def title_of(change: Change) -> str:
    """Return the headline of one change."""
    head = _HEADS[change.kind]
    if change.kind != "resolved" and change.facts.state == "forced_open":
        head = "Circuit forced open"
    elif change.kind == "opened" and change.flapping:
        head = "Circuit flapping"
    return f"{head}: {name_of(change.facts)}"


def sentences(change: Change) -> list[str]:
    """Return what there is to say of one change: why, since when, what happens next."""
    facts = change.facts
    if change.kind == "resolved":
        lasted = in_words(max(0.0, change.at - change.opened_at))
        said = [
            f"{_capital(change.note)}." if change.note else "",
            f"It was open for {lasted}, from {moment(change.opened_at)}.",
        ]
        said.append(f"It had opened because {facts.why}." if facts.why and facts.why != change.note else "")
        return [each for each in said if each]
    said = [f"{_capital(facts.why)}." if facts.why else ""]
    if change.flapping:
        said.append(f"It flaps: {change.note}." if change.note else "It flaps.")
    if facts.last_error:
        said.append(f"Last error: {facts.last_error}")
    said.append(f"Open since {moment(change.opened_at)}.")
    if facts.state == "open" and facts.open_until is not None:
        said.append(f"Next probe from {moment(facts.open_until)}.")
    if facts.stands_until is not None:
        said.append(f"The command ends at {moment(facts.stands_until)}.")
    if facts.fallback:
        said.append(f"Calls go to {', '.join(map(visible.name, facts.fallback))}.")
    return [each for each in said if each]


def line(change: Change) -> str:
    """Return one line of a list of circuits."""
    if change.kind == "resolved":
        return f"{name_of(change.facts)}: open for {in_words(max(0.0, change.at - change.opened_at))}"
    return f"{name_of(change.facts)}: {change.facts.why}" if change.facts.why else name_of(change.facts)


def paragraphs(message: Message) -> list[str]:
    """Return the body of a message: the sentences of one change, or a list of lines."""
    if message.digest is not None:
        return _digest(message.digest)
    if len(message.changes) == 1:
        return sentences(message.changes[0])
    return _listed([line(change) for change in message.changes])


def plain_text(message: Message, console_url: str | None) -> str:
    """Return the body as text, with the link to the console."""
    link = console_link(console_url, message.changes)
    return "\n".join([*paragraphs(message), *([link] if link else [])])


def console_link(console_url: str | None, changes: Sequence[Change]) -> str | None:
    """Return the console's page for what changed; None without a console."""
    if console_url is None:
        return None
    if len(changes) == 1 and changes[0].facts.scope != "family":
        return f"{console_url.rstrip('/')}/tool/{quote(changes[0].facts.tool_name, safe='')}"
    return f"{console_url.rstrip('/')}/"


def worst(changes: Sequence[Change]) -> str:
    """Return the highest severity of the changes."""
    order = ("critical", "error", "warning", "info")
    return min((change.severity for change in changes), key=order.index, default="info")


def _digest(digest: Digest) -> list[str]:
    lines = [
        f"{visible.name(tally.circuit_id)}: {_times(tally.opens, 'opening', 'openings')}, open for {in_words(tally.open_s)}, longest {in_words(tally.longest_s)}"
        for tally in digest.tools
    ]
    body = _listed(lines) if lines else ["No circuit opened."]
    if digest.open_now:
        shown = ", ".join(map(visible.name, digest.open_now[:MOST_LINES]))
        more = len(digest.open_now) - MOST_LINES
        body.append(f"Open now: {shown}{f' and {more} more' if more > 0 else ''}.")
    else:
        body.append("Nothing is open now.")
    return body


def _listed(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [f"• {each}" for each in lines[:MOST_LINES]] + ([f"… and {more} more"] if more > 0 else [])


def _times(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
