"""ClickHouse away or slow for long: the lag can be seen, memory stays bounded, and it recovers by itself.

Two minutes are shortened thirtyfold, and the sink's patience with them: the longest wait between attempts is 10 s by default.
``SWITCHGEAR_TEST_SHORTENED=1`` takes the two minutes as they are.
"""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from switchgear_schemas.settings import Settings
from switchgear_sinks.writer import WriterLimits
from tests.support.clickhouse_http import ClickHouseServer
from tests.support.sinking import assert_exact, load, produce, sinking

SHORTENED = float(os.environ.get("SWITCHGEAR_TEST_SHORTENED", "30"))
TWO_MINUTES_S = 120 / SHORTENED
PATIENCE = WriterLimits(
    batch_rows=500,
    batch_age_s=0.05,
    retry_first_s=0.2 / SHORTENED,
    retry_longest_s=10 / SHORTENED,
    memory_bytes=2_000_000,
)


async def test_two_minutes_without_clickhouse_lose_and_double_nothing(
    there: Settings, server: ClickHouseServer
) -> None:
    async with sinking(there, limits=PATIENCE) as sink:
        await produce(there, load(500))
        await sink.until_committed(there)
        server.kill()
        away_until, sent, seen = time.monotonic() + TWO_MINUTES_S, 500, []
        while time.monotonic() < away_until:
            await produce(there, load(1_000))
            sent += 1_000
            await asyncio.sleep(0.4)
            seen.append(sink.lag(there))
            assert not sink.task.done()
        assert seen[-1] > seen[0] >= 0, "the lag grows visibly"
        assert sink.metric("switchgear_sink_failing_partitions") > 0
        assert sink.metric("switchgear_sink_insert_retries_total", code="unreachable") >= 4
        server.start()
        await sink.until_committed(there)
        await assert_exact(sink.store, sent)
        await sink.until_caught_up(there)
        assert sink.metric("switchgear_sink_failing_partitions") == 0


@pytest.mark.deep
async def test_a_slow_clickhouse_is_waited_for_and_not_asked_twice(there: Settings, server: ClickHouseServer) -> None:
    async with sinking(there, limits=PATIENCE) as sink:
        await produce(there, load(500))
        await sink.until_committed(there)
        server.order("slow-1.5")
        await produce(there, load(4_000))
        await asyncio.sleep(2.5)
        assert sink.lag(there) > 0
        assert sink.metric("switchgear_sink_failing_partitions") == 0, "a slow insert is not a failure"
        server.order("ok")
        await sink.until_committed(there)
        await assert_exact(sink.store, 4_500)
        retries = [each for each in sink.registry.collect() if each.name == "switchgear_sink_insert_retries"]
        assert [sample.value for family in retries for sample in family.samples] == []
        await sink.until_caught_up(there)
