"""Comparing the events in the executions topic with the emitted ones. A failure shows a few numbers, not thousands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from switchgear_schemas.headers import RESENT


def number_of(record: Any) -> int:
    """Return the number that the test put into ``metadata``."""
    return json.loads(record.value)["metadata"]["number"]


def metric_id_of(record: Any) -> str:
    """Return the event's id, which its copies share."""
    return json.loads(record.value)["metric_id"]


def is_marked(record: Any) -> bool:
    """Return whether the emitter marked the event as possibly sent before."""
    return (RESENT, b"1") in record.headers


def assert_each_once(records: Iterable[Any], expected: Iterable[Any], *, by: Callable[[Any], Any] = number_of) -> None:
    """Assert that each number, or what ``by`` reads from a record, arrived exactly once."""
    counts = Counter(map(by, records))
    wanted = set(expected)
    missing, unexpected = wanted - counts.keys(), counts.keys() - wanted
    twice = [number for number, count in counts.items() if count > 1]
    assert (*map(_few, (missing, unexpected, twice)),) == ("0", "0", "0"), "missing, unexpected, more than once"


def assert_each_arrived(
    records: Iterable[Any], expected: Iterable[Any], *, by: Callable[[Any], Any] = number_of
) -> None:
    """Assert that each number, or what ``by`` reads from a record, arrived, and that every copy is marked. An emitter promises this if a broker dies."""
    firsts: dict[Any, Any] = {}
    unmarked = []
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        name = by(record)
        if name not in firsts:
            firsts[name] = record
        elif not is_marked(record):
            unmarked.append(name)
    assert _few(unmarked) == "0", "copies without a mark"
    assert_each_once(firsts.values(), expected, by=by)


def assert_in_order(records: Iterable[Any]) -> None:
    """Assert that the numbers of each tool rise along the log, except for marked copies."""
    seen: set[int] = set()
    last: dict[bytes, int] = {}
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        number = number_of(record)
        if number in seen and is_marked(record):
            continue
        seen.add(number)
        assert number > last.get(record.key, -1), f"{number} after {last[record.key]}"
        last[record.key] = number


def _few(names: Iterable[Any]) -> str:
    found = sorted(names)
    return f"{len(found)}" if not found else f"{len(found)}: {found[:20]}"
