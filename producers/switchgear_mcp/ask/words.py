"""Parts of sentences for a model: times, numbers, and names of strangers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from switchgear.model_text import name_for_model

MOST_NAMED: Final = 25
"""The most tools that one answer names. The others are counted."""
MOST_INSTEAD: Final = 3


class Answer(NamedTuple):
    """The answer to a question, in words and as values. Both are for a model, so both have foreign names and texts quoted."""

    text: str
    data: Mapping[str, object]


def instant(text: object) -> datetime | None:
    """Return a time of the API, None if it has none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def clock(at: datetime, now: datetime) -> str:
    """Return ``10:02:11 UTC``, with its date on another day."""
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def iso(at: datetime | None) -> str | None:
    """Return a time for a program."""
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def names(found: Iterable[str]) -> list[str]:
    """Return names as a model may read them."""
    return [name_for_model(each) for each in found]


def any_of(found: Sequence[str]) -> str:
    """Return ``a, b or c`` of names that a model may read."""
    shown = names(found[:MOST_INSTEAD])
    return " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def counted(number: int, one: str, many: str = "") -> str:
    """Return ``1 call`` or ``12 calls``."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def share(value: float) -> str:
    """Return 0.9912 as ``99.1 %``, rounded down."""
    return f"{int(value * 1000 + 1e-7) / 10:g} %"


def milliseconds(value: float) -> str:
    """Return a duration."""
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


def dollars(value: float) -> str:
    """Return an amount of money."""
    return f"${value:.2f}" if value >= 1 else f"${value:.4f}"
