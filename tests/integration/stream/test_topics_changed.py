"""Topics that someone changes or deletes while the workers run."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.new_partitions import NewPartitions

from switchgear.follower.follower import CircuitFollower
from switchgear_cli.topics import ensure_topics
from switchgear_stream.inspect import read_circuits, read_rows, totals
from tests.support.limits import READY_S, STOP_S
from tests.support.processes import run
from tests.support.stream import command, dead_letters, emit, eventually, get

TOOLS = [f"tool-{number}" for number in range(24)]


@asynccontextmanager
async def _admin(settings):
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def test_a_circuits_topic_that_was_deleted_has_every_circuit_again_at_once(settings, start_worker):
    start_worker(settings)
    await emit(settings, [{"tool_name": tool, "status": "success"} for tool in TOOLS])
    for tool in TOOLS[:8]:
        await command(settings, tool, "force_open", reason="maintenance")
    await eventually(lambda: _states(settings, "forced_open", 8), what="eight circuits forced open")
    before = await read_circuits(settings)
    follower = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    try:
        assert await follower.until_loaded(20)
        async with _admin(settings) as admin:
            await admin.delete_topics([settings.topics.circuits])
            await eventually(lambda: _is_gone(admin, settings.topics.circuits), what="the topic is gone")
        await ensure_topics(settings)
        await eventually(
            lambda: _states(settings, "forced_open", 8), timeout_s=10, what="the circuits are back"
        )  # own limit: a promise
        after = await read_circuits(settings)
        assert {name: records[-1] for name, records in after.items()} == {
            name: records[-1] for name, records in before.items()
        }

        async def refused() -> bool:
            states = [follower.table.views.get(tool) for tool in TOOLS[:8]]
            return all(each is not None and each.state == "forced_open" for each in states)

        await eventually(refused, what="a process that followed before refuses them")
        assert await dead_letters(settings) == []
    finally:
        follower.close(1.0)


async def _states(settings, state, count):
    found = await read_circuits(settings)
    return sum(records[-1].state == state for records in found.values()) == count


async def _is_gone(admin, topic):
    return topic not in await admin.list_topics()


async def test_added_partitions_under_load_lose_no_circuit_and_no_call(settings, start_worker):
    workers = [start_worker(settings, wait=False) for _ in range(2)]
    for worker in workers:
        worker.wait_for_output("ready  ")
    sent = 0

    async def load(rounds: int) -> None:
        nonlocal sent
        for number in range(rounds):
            events = [
                {"tool_name": tool, "status": "error", "error_class": "server", "emitter_id": f"p{number % 3}"}
                for tool in TOOLS
            ]
            await emit(settings, events)
            sent += len(events)

    await load(4)
    async with _admin(settings) as admin:
        await asyncio.gather(
            load(4), admin.create_partitions({settings.topics.executions: NewPartitions(total_count=9)})
        )
    await load(8)
    await eventually(lambda: _said(workers), what="both workers say it")
    await load(4)
    await eventually(lambda: _counted(settings, sent), what="every call counted")
    assert totals(await read_rows(settings))["total_calls"] == sent
    assert await dead_letters(settings) == []
    assert await _states(settings, "open", len(TOOLS))

    for worker in workers:  # a restart goes on
        worker.process.terminate()
        assert worker.wait_for_exit(STOP_S) == 0
    start_worker(settings)
    await load(2)
    await eventually(lambda: _counted(settings, sent), what="every call counted after a restart")
    assert await dead_letters(settings) == []


async def _said(workers):
    answers = [await asyncio.to_thread(get, worker, "/healthz") for worker in workers]
    assert [status for status, _ in answers] == [200, 200]
    return all("has 9 partitions" in json.loads(body).get("notice", "") for _, body in answers)


async def _counted(settings, sent):
    return totals(await read_rows(settings))["total_calls"] >= sent


async def test_another_number_of_partitions_than_circuits_are_kept_in_is_refused(settings, start_worker):
    worker = start_worker(settings)
    worker.process.terminate()
    assert worker.wait_for_exit(STOP_S) == 0
    wrong = settings.model_copy(update={"topic_partitions": 8})
    found = run("worker", settings=wrong)
    assert found.returncode == 1
    assert "SWITCHGEAR_TOPIC_PARTITIONS=4" in found.stderr
    names = settings.topics
    async with _admin(settings) as admin:
        more = dict.fromkeys(
            [names.executions, names.commands, names.circuits, names.changelog], NewPartitions(total_count=8)
        )
        await admin.create_partitions(more)
        await eventually(lambda: _has(admin, names.changelog, 8), what="eight partitions")
    found = run("worker", settings=wrong, timeout_s=READY_S)
    assert found.returncode == 70
    assert "SWITCHGEAR_TOPIC_PARTITIONS=4" in found.stdout + found.stderr
    start_worker(settings)  # the way out works


async def _has(admin, topic, count):
    (found,) = await admin.describe_topics([topic])
    return len(found["partitions"]) == count
