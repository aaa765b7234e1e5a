"""Rows for the query bench, made inside ClickHouse and inserted through the real tables and their views."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from switchgear_sinks.store import Store

TOOLS: Final = 200
HOURS: Final = 24
CHUNK: Final = 1_000_000
SETTLE_S: Final = 120.0
THREADS: Final = {"max_threads": 2, "max_insert_threads": 1, "max_block_size": 262_144}

# Lognormal durations (median 150 ms, one call in 4,500 above 5 s), 0.5 % timeouts that all took 30 s, 3 % errors, 1 % refused;
# busy and rare tools (a square), two tenants, sessions of about 100 calls.
_ROWS: Final = """
INSERT INTO tool_metrics (
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, parameters_hash, input_size, output_size, input_tokens, output_tokens, cost_usd, emitter_id, service,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp)
SELECT
    generateUUIDv7(number) AS metric_id,
    if(number % 10 = 0, 'acme', '') AS tenant,
    concat('mcp:server-', toString(tool % 20), ':tool-', toString(tool)) AS tool_name,
    concat('user-', toString(number % 5000)) AS user_id,
    concat('session-', toString(intDiv(number, 100))) AS session_id,
    concat('request-', toString(number)) AS request_id,
    multiIf(dice < 10, 'rejected', dice < 15, 'timeout', dice < 45, 'error', 'success') AS status,
    multiIf(dice < 10, 0, dice < 15, 30000 + rand(4) % 50, randLogNormal(5, 1)) AS execution_time_ms,
    multiIf(dice < 10, 'CircuitOpenError', dice < 15, 'TimeoutError', dice < 45, 'ValueError', '') AS error_type,
    multiIf(dice < 10, '', dice < 15, 'no answer within 30 s', dice < 45, concat('no city ', toString(number % 977)), '')
        AS error_message,
    multiIf(dice < 10, '', dice < 15, 'timeout', dice < 45, 'server', '') AS error_class,
    hex(sipHash64(number % 1000)) AS parameters_hash,
    rand(5) % 2000, rand(6) % 9000, rand(7) % 500, rand(8) % 900, 0.0001,
    concat('planner@host-', toString(number % 40)) AS emitter_id,
    'planner' AS service,
    fromUnixTimestamp64Micro({start:Int64} + toInt64(number * {step:Float64}), 'UTC') AS recorded_at,
    toUInt32(tool % 6) AS kafka_partition,
    number AS kafka_offset,
    fromUnixTimestamp64Milli({arrived:Int64}, 'UTC') AS kafka_timestamp
FROM (
    SELECT number, rand(1) % 1000 AS dice, toUInt32(floor(pow(rand(2) / 4294967296, 2) * {tools:UInt32})) AS tool
    FROM numbers({first:UInt64}, {count:UInt64})
)
"""

# 200 circuits with 100 records each: opened, probed, closed.
_CIRCUITS: Final = """
INSERT INTO circuit_transitions (
    circuit_id, tool_name, state, previous_state, version, generation, cause, changed_at, open_until, counts,
    kafka_partition, kafka_offset)
SELECT
    concat('mcp:server-', toString(tool % 20), ':tool-', toString(tool)) AS name, name,
    ['open', 'half_open', 'closed'][step % 3 + 1], ['closed', 'open', 'half_open'][step % 3 + 1], step + 1, step + 1,
    '{"rule":"cusum","value":12.5,"threshold":12.0}', fromUnixTimestamp64Micro({start:Int64}, 'UTC') + toIntervalSecond(step * 600),
    NULL, '{"calls":40,"failed":20}', tool % 6, number
FROM (SELECT number, intDiv(number, 100) AS tool, number % 100 AS step FROM numbers({tools:UInt32} * 100))
"""


async def load(store: Store, rows: int) -> float:
    """Insert ``rows`` calls of 200 tools, spread over the 24 h before now, in the order of time; return the seconds it took."""
    end = datetime.now(UTC)
    start = end - timedelta(hours=HOURS)
    started = time.perf_counter()
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        parameters = {
            "start": int(start.timestamp() * 1e6),
            "step": HOURS * 3600e6 / rows,
            "arrived": int(end.timestamp() * 1e3),
            "tools": TOOLS,
            "first": first,
            "count": count,
        }
        await store.command(_ROWS, parameters, THREADS)
    await store.command(_CIRCUITS, {"start": int(start.timestamp() * 1e6), "tools": TOOLS})
    return time.perf_counter() - started


async def settled(store: Store) -> None:
    """Wait until ClickHouse has finished its merges, at most two minutes. Reads beside merges would measure the merges."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if not (await store.query("SELECT count() FROM system.merges")).result_rows[0][0]:
            return
        await asyncio.sleep(1)


async def sizes(store: Store) -> list[tuple[str, int, int, float]]:
    """Return the rows, parts and MiB on disk of each table."""
    found = await store.query(
        "SELECT table, sum(rows), count(), round(sum(bytes_on_disk) / 1048576, 1) FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table"
    )
    return [(str(row[0]), int(row[1]), int(row[2]), float(row[3])) for row in found.result_rows]
