"""Read outages that a person knows, in place of estimated ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from switchgear.policies.glob import matches
from switchgear_cli.tune.outages import Outage
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.files import read_file

_MOST_BYTES: Final = 64 * 1_048_576
_EXAMPLE = '[{"tool": "mcp:weather:*", "start": "2026-11-21T10:00:00Z", "end": "2026-11-21T10:05:00Z"}]'


def read_outages(path: Path, tools: Iterable[str]) -> list[Outage]:
    """Return the outages of ``tools`` in a JSON file. Overlapping ones of a tool become one.

    Args:
        path: A JSON array of objects with ``start``, ``end`` and ``tool`` (a name or glob; all tools without it). An instant is a date
            and time, UTC if it has no offset, or seconds since 1970.
        tools: The names of the tools.

    Raises:
        WrongUsageError: The file can't be read, or an entry is not an outage.
    """
    try:
        entries = json.loads(read_file(path, _MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise WrongUsageError(f"--outages {path} can't be read: {error.strerror}.", hint="Check the path.") from None
    except ValueError as error:
        raise WrongUsageError(f"--outages {path} is not JSON: {error}.", hint=f"Write e.g. {_EXAMPLE}.") from None
    if not isinstance(entries, list):
        raise WrongUsageError(f"--outages {path} is not an array.", hint=f"Write e.g. {_EXAMPLE}.")
    spans = [_span(path, number, entry) for number, entry in enumerate(entries, 1)]
    return [
        Outage(tool, start, end)
        for tool in tools
        for start, end in _merged((start, end) for glob, start, end in spans if matches(glob, tool))
    ]


def _span(path: Path, number: int, entry: Any) -> tuple[str, float, float]:
    try:
        tool, start, end = entry.get("tool", "*"), _instant(entry["start"]), _instant(entry["end"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise WrongUsageError(
            f"--outages {path}: entry {number} is not an outage with start and end.", hint=f"Write e.g. {_EXAMPLE}."
        ) from None
    if not isinstance(tool, str) or end < start:
        raise WrongUsageError(
            f"--outages {path}: entry {number} has an end before its start, or a tool that is not text.",
            hint=f"Write e.g. {_EXAMPLE}.",
        )
    return tool, start, end


def _instant(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    at = datetime.fromisoformat(value)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
