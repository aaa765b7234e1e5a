"""Fields that a message names twice: legal JSON, of which the last one counts, and refused by ClickHouse."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_distinct: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def repeats_a_field(value: bytes) -> bool:
    """The object names one of its own fields more than once, or may do so; what is nested in it does not matter.

    About 1.2 µs where no string or nested object makes it look closer. ``value`` is one that the strict decoder has passed.
    """
    fields = len(_distinct(value))
    if value.count(b'":') == fields:
        return False
    pairs: list[tuple[str, Any]] = []

    def keep(found: list[tuple[str, Any]]) -> None:
        pairs[:] = found  # the outermost object comes last

    try:
        json.loads(value, object_pairs_hook=keep)
    except (ValueError, RecursionError):  # a number of 5,000 digits, a nest 900 deep: msgspec reads them, json does not
        return True
    return len(pairs) > fields
