"""docs/howto/fastapi.md with a real server, of one process and of several."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from switchgear_cli.local.ports import any_free_port
from tests.integration.howto.pages import TOOL, command_of, events, get, seconds_of, serving, start, until_events
from tests.integration.producers.circuits import circuit, publish
from tests.support.limits import HAPPEN_S
from tests.support.snippets import written

PAGE = "docs/howto/fastapi.md"


@pytest.fixture
def serve(settings, tmp_path):
    """Return ``serve(*options)``, which starts the application with the page's command and returns its process and address."""
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


def test_fastapi_answers_503_with_retry_after_once_five_failures_opened_the_circuit(serve, settings):
    child, url = serve()
    assert httpx.get(f"{url}/Oslo", timeout=HAPPEN_S).json() == "sunny in Oslo"
    assert [httpx.get(f"{url}/Atlantis").status_code for _ in range(6)] == [500] * 5 + [503]
    assert 55 <= seconds_of(httpx.get(f"{url}/Oslo")) <= 60
    child.terminate()
    found = [(event["service"], event["status"]) for event in events(settings)]
    assert found.count(("forecasts", "success")) == 1
    assert found.count(("forecasts", "error")) == 5
    assert ("forecasts", "rejected") in found


@pytest.mark.deep
def test_every_uvicorn_worker_sends_its_last_events_before_it_ends(serve, settings):
    child, url = serve("--workers", "2")
    answers = get(f"{url}/Oslo", 20)
    until_events(settings, lambda found: len({event["emitter_id"] for event in found}) == 2 or get(f"{url}/Oslo", 8))
    before = len(events(settings))
    last = get(f"{url}/Oslo", 40, at_once=8)
    child.terminate()
    assert {answer.status_code for answer in answers + last} == {200}
    assert len(events(settings)) >= before + 40


@pytest.mark.deep
def test_first_fastapi_request_knows_the_circuits_that_were_open_before_the_start(serve, settings):
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    _child, url = serve()
    (answer,) = get(f"{url}/Oslo")
    assert seconds_of(answer) <= 50


def test_fastapi_application_starts_and_guards_without_kafka(serve):
    child, url = serve(SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=f"localhost:{any_free_port()}")
    assert [httpx.get(f"{url}/Atlantis", timeout=HAPPEN_S).status_code for _ in range(6)] == [500] * 5 + [503]
    child.kill9()  # its end would wait for Kafka
