"""`switchgear demo`: labelled traffic from several processes, which ends on request."""

import asyncio
import json

import psutil
import pytest
from aiokafka import AIOKafkaConsumer

from switchgear_cli.demo.fleet import SERVICES
from tests.support.limits import HAPPEN_S, STOP_S
from tests.support.processes import run, switchgear


async def events(settings, until):
    found = []
    async with AIOKafkaConsumer(
        settings.topics.executions, **settings.kafka.options(), auto_offset_reset="earliest"
    ) as consumer:
        async with asyncio.timeout(HAPPEN_S):
            while not until(found):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [json.loads(record.value) for record in records]
    return found


@pytest.mark.deep
async def test_every_event_of_the_demo_is_labelled_as_such(settings, tmp_path):
    with switchgear("demo", log=tmp_path / "demo.log", settings=settings) as child:
        found = await events(settings, lambda found: {event["service"] for event in found} == set(SERVICES))
        assert all(event["metadata"] == {"demo": True} for event in found if event["status"] != "rejected")
        assert len({event["emitter_id"] for event in found}) == len(SERVICES)
        agents = psutil.Process(child.pid).children(recursive=True)
        assert len(agents) == len(SERVICES)
        assert child.interrupt() == 0
        assert psutil.wait_procs(agents, timeout=5)[1] == []  # own limit: the demo has ended
        assert child.output().count("everything_sent=True") == len(SERVICES)


@pytest.mark.deep
def test_the_demo_ends_by_itself_after_the_given_time(settings):
    assert run("demo", "--seconds", "2", settings=settings).returncode == 0


def test_an_agent_that_dies_ends_the_demo_with_the_agents_name(settings, tmp_path):
    with switchgear("demo", log=tmp_path / "demo.log", settings=settings) as child:
        own = psutil.Process(child.pid)
        child.wait_until(lambda: len(own.children()) == len(SERVICES))
        agents = own.children()
        agents[0].kill()
        assert child.wait_for_exit(STOP_S) == 1
        assert "switchgear: The demo's process demo-" in child.output()
        assert psutil.wait_procs(agents, timeout=5)[1] == []  # own limit: the demo has ended


@pytest.mark.deep
async def test_the_demo_goes_on_without_a_broker(settings, tmp_path):
    away = settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    with switchgear("demo", log=tmp_path / "demo.log", settings=away) as child:
        own = psutil.Process(child.pid)
        child.wait_until(lambda: len(own.children()) == len(SERVICES))
        await asyncio.sleep(4)
        assert child.alive
        assert child.terminate() == 0
