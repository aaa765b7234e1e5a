"""The plain ways into ClickHouse that the sink does not use: decoded rows and Arrow tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
from clickhouse_connect.driver.client import Client

from switchgear_schemas.wire import decode_execution

COLUMNS: Final = (
    "metric_id", "tool_name", "user_id", "session_id", "request_id", "status", "execution_time_ms", "error_type", "error_message",
    "error_class", "parameters_hash", "input_size", "output_size", "emitter_id", "service", "recorded_at",
    "kafka_partition", "kafka_offset",
)  # fmt: skip
"""The columns of the bench's events, with their Kafka coordinates."""
PARTITION: Final = 2_000
_TEXT: Final = {"error_type", "error_message", "error_class"}
_json: Final = msgspec.json.Decoder().decode
Insert = Callable[[Client, list[bytes], int], None]


def insert_rows(client: Client, values: list[bytes], first: int) -> None:
    """Insert typed rows with ``client.insert``, which converts each value in Python."""
    rows = [
        [*(_typed(decode_execution(value), name) for name in COLUMNS[:-2]), PARTITION, first + place]
        for place, value in enumerate(values)
    ]
    client.insert("tool_metrics", rows, column_names=COLUMNS, settings={"insert_deduplicate": 0})


def insert_arrow(client: Client, values: list[bytes], first: int) -> None:
    """Insert columns of decoded JSON with ``client.insert_arrow``. ClickHouse converts the ids from text."""
    decoded = [_json(value) for value in values]
    columns: dict[str, Any] = {
        name: pa.array([each.get(name, "") if name in _TEXT else each[name] for each in decoded])
        for name in COLUMNS[:-3]
    }
    moments = pa.array([each["recorded_at"] for each in decoded])
    columns["recorded_at"] = moments.cast(pa.timestamp("us", tz="UTC"))
    columns["kafka_partition"] = pa.array([PARTITION] * len(decoded), pa.uint32())
    columns["kafka_offset"] = pa.array(range(first, first + len(decoded)), pa.uint64())
    client.insert_arrow("tool_metrics", pa.table(columns), settings={"insert_deduplicate": 0})


PLAIN: Final[dict[str, Insert]] = {"insert of decoded rows": insert_rows, "insert_arrow": insert_arrow}


def _typed(event: Any, name: str) -> Any:
    value = getattr(event, name)
    return "" if value is None else value
