"""Read stored calls as a history over the HTTP API: page by page, in the order in which they ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from switchgear.policies.glob import matches
from switchgear_api.replay.history import HistoryLine, parse_line
from switchgear_schemas.errors import WrongUsageError

PAGE: Final = 5_000
"""Calls per page. The API may send fewer (``sql_max_rows``)."""
_PLACE: Final = ("toString(toUnixTimestamp64Micro(recorded_at)) AS at", "kafka_partition", "kafka_offset")
_TEXT: Final = ("tool_name", "status", "error_class", "emitter_id", "user_id", "session_id")
_NUMBERS: Final = (
    "execution_time_ms",
    "retry_after_s",
    "input_tokens",
    "output_tokens",
    "cache_creation_tokens",
    "cost_usd",
)


class StoredHistoryError(WrongUsageError):
    """The stored history can't be read as requested."""


class Sql(Protocol):
    """Runs queries, as :class:`switchgear_cli.reads.client.ApiClient` does."""

    def sql(self, query: str) -> dict[str, Any]:
        """Return columns, rows, and whether the rows were truncated."""
        ...


def stored_tools(api: Sql, glob: str) -> list[str]:
    """Return the tools with stored calls that a name or glob matches."""
    answer = api.sql("SELECT DISTINCT tool_name FROM tool_counts_1m ORDER BY tool_name")
    return [row[0] for row in answer["rows"] if matches(glob, row[0])]


def stored_history(
    api: Sql, since: datetime, until: datetime, tools: Collection[str] | None = None
) -> Iterator[HistoryLine]:
    """Return the calls that ended in ``[since, until)``, of some tools or of all.

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
        answer = api.sql(_query(place, end, tools))
        for row in answer["rows"]:
            number += 1
            *where, raw = _line(row)
            place = (where[0], where[1], where[2])
            yield parse_line(number, raw)
        if len(answer["rows"]) < PAGE and not answer["truncated"]:
            return


def one_of(names: Collection[str]) -> str:
    """Return names as a list of ClickHouse's text literals, in parentheses."""
    quoted = ("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names)
    return f"({', '.join(quoted)})"


def _query(place: tuple[int, int, int], end: int, tools: Collection[str] | None) -> str:
    at, partition, offset = place
    chosen = "" if tools is None else f" AND tool_name IN {one_of(tools)}"
    return (
        f"SELECT {', '.join((*_PLACE, *_TEXT, *_NUMBERS))} FROM tool_metrics"  # noqa: S608 - integers, constants and literals
        f" WHERE recorded_at >= fromUnixTimestamp64Micro({at}) AND recorded_at < fromUnixTimestamp64Micro({end})"
        f" AND (recorded_at, kafka_partition, toInt64(kafka_offset))"
        f" > (fromUnixTimestamp64Micro({at}), {partition}, {offset}){chosen}"
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
