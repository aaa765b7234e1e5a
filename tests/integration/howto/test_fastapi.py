"""docs/howto/fastapi.md under a real server, with one process and with several."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from switchgear_cli.local.ports import any_free_port
from tests.integration.howto.pages import TOOL, command_of, events, get, seconds_of, serving, start, until_events
from tests.integration.producers.circuits import circuit, publish
from tests.support.snippets import written

pytestmark = pytest.mark.integration
PAGE = "docs/howto/fastapi.md"


@pytest.fixture
def serve(settings, tmp_path):
    """``serve(*options)``: the page's application by the page's command; its process and its address."""
    written(PAGE, tmp_path)
    started = []

    def begin(*options, **extra):
        port = any_free_port()
        child = start([*command_of(PAGE, "uvicorn"), "--port", str(port), *options], tmp_path, settings, **extra)
        started.append(child)
        return child.wait_until(lambda: serving(port)), f"http://127.0.0.1:{port}/forecast"

    yield begin
    for child in started:
        child.__exit__()


def test_five_failures_open_the_circuit_and_a_refused_request_is_a_503_with_retry_after(serve, settings):
    child, url = serve()
    assert httpx.get(f"{url}/Oslo", timeout=30).json() == "sunny in Oslo"
    assert [httpx.get(f"{url}/Atlantis").status_code for _ in range(6)] == [500] * 5 + [503]
    assert 55 <= seconds_of(httpx.get(f"{url}/Oslo")) <= 60
    child.terminate()
    found = [(event["service"], event["status"]) for event in events(settings)]
    assert found.count(("forecasts", "success")) == 1
    assert found.count(("forecasts", "error")) == 5
    assert ("forecasts", "rejected") in found


def test_every_worker_process_sends_its_events_also_the_last_ones_before_the_end(serve, settings):
    child, url = serve("--workers", "2")
    answers = get(f"{url}/Oslo", 20)
    until_events(settings, lambda found: len({event["emitter_id"] for event in found}) == 2 or get(f"{url}/Oslo", 8))
    before = len(events(settings))
    last = get(f"{url}/Oslo", 40, at_once=8)
    child.terminate()
    assert {answer.status_code for answer in answers + last} == {200}
    assert len(events(settings)) >= before + 40


def test_the_first_request_knows_what_the_fleet_decided_before_the_start(serve, settings):
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    _child, url = serve()
    (answer,) = get(f"{url}/Oslo")
    assert seconds_of(answer) <= 50


def test_the_application_starts_and_guards_without_kafka(serve):
    child, url = serve(SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=f"localhost:{any_free_port()}")
    assert [httpx.get(f"{url}/Atlantis", timeout=30).status_code for _ in range(6)] == [500] * 5 + [503]
    child.kill9()  # its end would wait for Kafka
