from __future__ import annotations

import socket
from types import SimpleNamespace

import aiohttp
import pytest

from switchgear_schemas import SettingsError
from switchgear_stream.http import probes_of, serving_probes
from tests.support.standing_worker import StandingWorker


@pytest.fixture
async def worker():
    made = StandingWorker(end=10, position=4)
    await made.monitor.look()
    return made


@pytest.mark.slow
async def test_health_readiness_and_metrics_are_served(worker):
    probes = probes_of(worker, worker.monitor, worker.metrics)
    async with (
        serving_probes(probes, "127.0.0.1:0") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        async with client.get("/healthz") as answer:
            assert answer.status == 200
        async with client.get("/readyz") as answer:
            assert await answer.json() == {"status": "ready", "partitions": [0]}
        async with client.get("/metrics") as answer:
            text = await answer.text()
        assert 'switchgear_worker_lag_records{topic="t.executions"} 6.0' in text
        assert 'switchgear_worker_circuits{state="open"} 2.0' in text
        worker.ready = False
        worker.watchdog.report("broken")
        async with client.get("/readyz") as answer:
            assert answer.status == 503
        async with client.get("/healthz") as answer:
            assert (answer.status, (await answer.json())["problem"]) == (503, "broken")


@pytest.mark.slow
async def test_a_notice_about_the_topics_leaves_a_worker_healthy_and_a_problem_does_not(worker):
    topics = SimpleNamespace(problem=None, notice="8 partitions", counts={})
    worker.monitor._watch = topics
    probes = probes_of(worker, worker.monitor, worker.metrics)
    async with (
        serving_probes(probes, "127.0.0.1:0") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        async with client.get("/healthz") as answer:
            assert (answer.status, (await answer.json())["notice"]) == (200, "8 partitions")
        topics.problem = "no topic"
        async with client.get("/healthz") as answer:
            assert (answer.status, (await answer.json())["problem"]) == (503, "no topic")


async def test_an_address_in_use_is_an_error_that_names_the_setting(worker):
    probes = probes_of(worker, worker.monitor, worker.metrics)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingsError, match="SWITCHGEAR_WORKER_HTTP"):
            async with serving_probes(probes, address):
                pass
