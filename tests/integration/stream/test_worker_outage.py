"""The broker goes away under a working worker and comes back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil
import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from switchgear_stream.inspect import read_rows, totals
from tests.support.kafka import own_kafka
from tests.support.limits import HAPPEN_S
from tests.support.stream import emit, eventually, recount


@pytest.mark.deep
async def test_a_bounced_broker_costs_no_call_and_a_dead_one_is_waited_for_without_spinning(
    tmp_path: Path, start_worker
):
    port = any_free_port()
    kafka = own_kafka(tmp_path / "kafka", port)
    kafka.start()
    settings = load_settings(
        kafka_bootstrap_servers=kafka.bootstrap,
        topic_partitions=4,
        worker_http="127.0.0.1:0",
        worker_session_timeout_s=6,
    )
    try:
        await ensure_topics(settings)
        worker = await asyncio.to_thread(start_worker, settings)
        calls = [{"tool_name": f"tool-{number % 8}", "status": "success"} for number in range(2000)]
        await emit(settings, calls)
        kafka.stop()
        await asyncio.sleep(1)
        kafka = own_kafka(tmp_path / "kafka", port)
        kafka.start()
        await emit(settings, calls)

        async def all_counted():
            nonlocal worker
            if not worker.alive:  # it may give up; its supervisor starts it again
                worker = await asyncio.to_thread(start_worker, settings)
            return totals(await read_rows(settings))["total_calls"] >= 4000

        await eventually(all_counted, timeout_s=HAPPEN_S)
        statuses = await recount(settings)
        assert {name: row.total_calls for name, row in (await read_rows(settings)).items()} == {
            name: found.total() for name, found in statuses.items()
        }
        kafka.kill()
        process = psutil.Process(worker.pid)
        await asyncio.sleep(1)
        used = sum(process.cpu_times()[:2])
        await asyncio.sleep(3)
        assert sum(process.cpu_times()[:2]) - used < 0.15 * 3
        asked_at = time.monotonic()
        assert await asyncio.to_thread(worker.terminate) == 0
        assert time.monotonic() - asked_at < 10
    finally:
        kafka.stop()
