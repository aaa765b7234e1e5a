"""The same sink over HTTP: a ClickHouse server that is away, refuses, breaks off; and two sinks that share the partitions."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas import headers
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import open_store
from switchgear_sinks.writer import WriterLimits
from tests.support.clickhouse_http import ClickHouseServer
from tests.support.deep import some
from tests.support.limits import ANSWER_S
from tests.support.processes import run, switchgear
from tests.support.sinking import Sinking, assert_exact, fully_committed, load, produce, sinking, until

PATIENT = WriterLimits(batch_rows=500, batch_age_s=0.05, retry_first_s=0.05, retry_longest_s=0.3)


async def failing(sink: Sinking) -> bool:
    assert not sink.task.done()
    return sink.metric("switchgear_sink_failing_partitions") > 0


async def test_a_server_holds_the_same_tables_and_rows(there: Settings) -> None:
    async with sinking(there) as sink:
        assert sink.store.database == "metrics"
        await produce(there, load(3_000))
        await sink.until_committed(there)
        await assert_exact(sink.store, 3_000)


@pytest.mark.parametrize("trouble", some(["503", "code-252", "code-242", "stored-then-reset", "code-241", "reset"], 1))
async def test_failures_that_pass_lose_and_double_nothing(
    there: Settings, server: ClickHouseServer, trouble: str
) -> None:
    async with sinking(there, limits=PATIENT) as sink:
        await produce(there, load(500))
        await sink.until_committed(there)
        server.order(trouble)
        await produce(there, load(2_000))
        await until(lambda: failing(sink), "failing")
        await asyncio.sleep(1)
        assert sink.lag(there) > 0, "everyone can see it"
        server.order("ok")
        await sink.until_committed(there)
        await assert_exact(sink.store, 2_500)
        await sink.until_caught_up(there)
        assert sink.metric("switchgear_sink_failing_partitions") == 0


@pytest.mark.deep
async def test_thousands_of_events_that_were_sent_again_at_once_are_looked_up(there: Settings) -> None:
    """Together their ids are more than a server takes in one parameter."""
    events = load(6_000)
    for message in events:
        message.partition = 0
    await produce(there, events[:3_000])
    async with sinking(there) as sink:
        await sink.until_committed(there)
    for message in events:
        message.headers = [(headers.RESENT, b"1")]
    await produce(there, events)
    async with sinking(there, limits=WriterLimits(batch_rows=6_000, batch_age_s=20)) as sink:
        await sink.until_committed(there)
        await assert_exact(sink.store, 6_000)


@pytest.mark.deep
async def test_a_server_that_crashes_and_comes_back_finds_its_sink_waiting(
    there: Settings, server: ClickHouseServer
) -> None:
    async with sinking(there, limits=PATIENT) as sink:
        await produce(there, load(500))
        await sink.until_committed(there)
        server.kill()
        await produce(there, load(4_000))
        await until(lambda: failing(sink), "failing")
        assert sink.metric("switchgear_sink_insert_retries_total", code="unreachable") > 0
        server.start()
        await sink.until_committed(there)
        await assert_exact(sink.store, 4_500)


async def test_a_sink_starts_while_the_server_takes_nothing_and_stores_all_when_it_does(
    there: Settings, server: ClickHouseServer
) -> None:
    async with sinking(there) as sink:  # the tables are there, and the consumer has no partitions yet
        server.order("503")
        await produce(there, load(50))
        await until(lambda: failing(sink), "failing")
        server.order("ok")
        await sink.until_committed(there)
        await assert_exact(sink.store, 50)


@pytest.mark.deep
async def test_a_sink_that_cannot_insert_holds_no_more_than_its_limit(
    there: Settings, server: ClickHouseServer
) -> None:
    tight = WriterLimits(
        batch_rows=200, batch_age_s=0.05, memory_bytes=400_000, retry_first_s=0.05, retry_longest_s=0.2
    )
    async with sinking(there, limits=tight) as sink:
        server.order("503")
        await produce(there, load(10_000))
        await until(lambda: failing(sink), "failing")
        await asyncio.sleep(2)
        one_poll_of_every_partition = 10_000 * 200
        assert 0 < sink.metric("switchgear_sink_held_bytes") < 400_000 + one_poll_of_every_partition
        assert sink.writer.paused
        server.order("ok")
        await sink.until_committed(there)
        await assert_exact(sink.store, 10_000)
        assert not sink.writer.paused


@pytest.mark.deep
async def test_two_sinks_share_the_partitions_and_take_over_from_each_other(there: Settings) -> None:
    sent = 0
    async with await open_store(there) as store, sinking(there, store, limits=PATIENT) as first:
        async with sinking(there, store, limits=PATIENT) as second:
            while not all(
                sink.metric("switchgear_sink_rows_total", table="tool_metrics") > 500 for sink in (first, second)
            ):
                await produce(there, load(1_000))
                sent += 1_000
                assert sent < 1_000_000, "the second sink never had a share"
            await produce(there, load(5_000))
        await produce(there, load(5_000))
        await first.until_committed(there)
        await assert_exact(store, sent + 10_000)


@pytest.mark.deep
async def test_sink_that_slept_while_it_was_replaced_stores_nothing_twice(there: Settings, tmp_path: Path) -> None:
    """Stopped in the middle of its work, replaced after its session, and woken up again."""
    slow = there.model_copy(update={"sink_batch_max_rows": 500})
    async with sinking(there, limits=PATIENT) as survivor:
        with switchgear("sink", log=tmp_path / "sleeper.log", settings=slow) as sleeper:
            await asyncio.to_thread(sleeper.wait_for_output, "partitions assigned")
            producing = asyncio.create_task(produce(there, load(20_000)))
            await survivor.until_count(3_000)
            sleeper.process.send_signal(signal.SIGSTOP)
            try:
                await producing
                await survivor.until_committed(there)
                await assert_exact(survivor.store, 20_000)
            finally:
                sleeper.process.send_signal(signal.SIGCONT)
            await produce(there, load(2_000))
            await survivor.until_committed(there)
            await asyncio.sleep(3)
            await assert_exact(survivor.store, 22_000)
            assert await asyncio.to_thread(sleeper.terminate) == 0


@pytest.mark.deep
async def test_a_sink_that_is_killed_hands_over_in_the_middle_of_a_batch(
    there: Settings, server: ClickHouseServer, tmp_path: Path
) -> None:
    """Without a stable name the group waits for the session of the dead one to end; then the other one replays its batch."""
    slow = there.model_copy(update={"sink_batch_max_rows": 500})
    async with sinking(there, limits=PATIENT) as survivor:
        with switchgear("sink", log=tmp_path / "doomed.log", settings=slow) as doomed:
            await asyncio.to_thread(doomed.wait_for_output, "partitions assigned")
            producing = asyncio.create_task(produce(there, load(20_000)))
            await survivor.until_count(3_000)
            doomed.kill9()
        await producing
        await survivor.until_committed(there)
        await assert_exact(survivor.store, 20_000)


async def test_a_sink_for_a_server_serves_its_state_and_the_api_runs_beside_it(there: Settings, tmp_path: Path) -> None:
    import httpx  # noqa: PLC0415 - used here alone

    await produce(there, load(100))
    api_settings = there.model_copy(update={"api_http": f"127.0.0.1:{any_free_port()}"})
    with (
        switchgear("sink", log=tmp_path / "sink.log", settings=there) as sink,
        switchgear("api", log=tmp_path / "api.log", settings=api_settings) as api,
    ):
        for child in (sink, api):
            await asyncio.to_thread(child.wait_for_output, " ready ")
        await until(lambda: fully_committed(there), "fully committed")
        async with httpx.AsyncClient(timeout=ANSWER_S) as client:
            for address in (there.api_http, api_settings.api_http):
                assert (await client.get(f"http://{address}/healthz")).status_code == 200
                assert (await client.get(f"http://{address}/readyz")).json()["status"] == "ready"
            metrics = (await client.get(f"http://{there.api_http}/metrics")).text
            assert 'switchgear_sink_rows_total{table="tool_metrics"} 100.0' in metrics
            assert (await client.get(f"http://{there.api_http}/v1/tools")).status_code == 404
            assert (await client.get(f"http://{api_settings.api_http}/v1/tools")).status_code == 200
        for child in (sink, api):
            assert await asyncio.to_thread(child.terminate) == 0


@pytest.mark.deep
async def test_wrong_settings_end_the_sink_with_a_sentence(there: Settings, tmp_path: Path) -> None:
    away = there.model_copy(update={"clickhouse_url": "http://127.0.0.1:9/x"})
    ended = await asyncio.to_thread(run, "sink", settings=away)
    assert ended.returncode == 1
    assert "ClickHouse at http://127.0.0.1:9/x could not be used: Connection refused." in ended.stderr
    embedded = there.model_copy(update={"clickhouse_url": f"chdb:{tmp_path}/x"})
    ended = await asyncio.to_thread(run, "api", settings=embedded)
    assert ended.returncode == 1
    assert "Only one process can open the embedded ClickHouse engine" in ended.stderr
    with switchgear("sink", log=tmp_path / "sink.log", settings=there) as sink:
        await asyncio.to_thread(sink.wait_for_output, " ready ")
        ended = await asyncio.to_thread(run, "sink", settings=there)
        assert ended.returncode == 1
        assert "cannot be listened on: Address already in use" in ended.stderr
