"""Find messages that name a field twice: msgspec takes the last one, and ClickHouse refuses the row."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_distinct: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def repeats_a_field(value: bytes) -> bool:
    """Return whether the object names one of its own fields twice. Nested objects do not matter.

    Args:
        value: A message that the strict decoder has accepted. If only the slow check could decide and it fails, the
            answer is True.
    """
    fields = len(_distinct(value))
    if value.count(b'":') == fields:
        return False
    pairs: list[tuple[str, Any]] = []

    def keep(found: list[tuple[str, Any]]) -> None:
        pairs[:] = found  # json.loads calls this for the outermost object last

    try:
        json.loads(value, object_pairs_hook=keep)
    except (ValueError, RecursionError):  # 5,000 digits or 900 levels: msgspec reads them, json does not
        return True
    return len(pairs) > fields
