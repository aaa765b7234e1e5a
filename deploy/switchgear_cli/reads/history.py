"""Read stored calls as a history over the HTTP API: page by page, in the order in which they ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from switchgear_cli.replay.history import HistoryLine, parse_line
from switchgear_cli.usage import WrongUsageError

PAGE: Final = 5_000
"""Calls per page. The API may send fewer (``sql_max_rows``)."""
_PLACE: Final = ("toString(toUnixTimestamp64Micro(recorded_at)) AS at", "kafka_partition", "kafka_offset")
_TEXT: Final = ("tool_name", "status", "error_class", "emitter_id", "user_id", "session_id")
_NUMBERS: Final = ("execution_time_ms", "retry_after_s", "input_tokens", "output_tokens", "cache_creation_tokens")


class StoredHistoryError(WrongUsageError):
    """The stored history can't be read as requested."""


class Sql(Protocol):
    """Runs queries, as :class:`switchgear_cli.reads.client.ApiClient` does."""

    def sql(self, query: str) -> dict[str, Any]:
        """Return columns, rows, and whether the rows were truncated."""
        ...


def stored_history(api: Sql, since: datetime, until: datetime) -> Iterator[HistoryLine]:
    """Return the calls that ended in ``[since, until)``.

    Naive instants are UTC. Calls of one instant come in Kafka's order.

    Raises:
        StoredHistoryError: ``until`` is not after ``since``.
    """
    first, end = _micros(since), _micros(until)
    if end <= first:
        raise StoredHistoryError(f"--until {until} is not after --since {since}.", hint="Give an instant after it.")
    place = (first, 0, -1)
    number = 0
    while True:
        answer = api.sql(_query(place, end))
        for row in answer["rows"]:
            number += 1
            *where, raw = _line(row)
            place = (where[0], where[1], where[2])
            yield parse_line(number, raw)
        if len(answer["rows"]) < PAGE and not answer["truncated"]:
            return


def _query(place: tuple[int, int, int], end: int) -> str:
    at, partition, offset = place
    return (
        f"SELECT {', '.join((*_PLACE, *_TEXT, *_NUMBERS))} FROM tool_metrics"  # noqa: S608 - integers and constants only
        f" WHERE recorded_at >= fromUnixTimestamp64Micro({at}) AND recorded_at < fromUnixTimestamp64Micro({end})"
        f" AND (recorded_at, kafka_partition, toInt64(kafka_offset))"
        f" > (fromUnixTimestamp64Micro({at}), {partition}, {offset})"
        f" ORDER BY recorded_at, kafka_partition, kafka_offset LIMIT {PAGE}"
    )


def _line(row: list[Any]) -> tuple[int, int, int, bytes]:
    at, partition, offset, *values = row
    event: dict[str, Any] = {
        name: value for name, value in zip((*_TEXT, *_NUMBERS), values, strict=True) if value not in ("", None)
    }
    for name in ("input_tokens", "output_tokens", "cache_creation_tokens"):
        event[name] = int(event.get(name, 0))
    seconds, micros = divmod(int(at), 1_000_000)
    event["recorded_at"] = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    return int(at), int(partition), int(offset), msgspec.json.encode(event)


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)
