"""docs/howto/django.md: a real project with gunicorn, forked before and after the import, and with ASGI."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.integration.howto.pages import (
    TOOL,
    command_of,
    events,
    get,
    seconds_of,
    serving,
    start,
    statuses,
    until_events,
)  # fmt: skip
from tests.integration.producers.circuits import circuit, publish
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment
from tests.support.snippets import written
from tests.support.waiting import until

pytestmark = pytest.mark.deep

PAGE = "docs/howto/django.md"


@pytest.fixture
def project(tmp_path):
    """Return the folder of a project by ``django-admin startproject shop .``, with the files of the page."""
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-m", "django", "startproject", "shop", "."], cwd=folder, check=True, timeout=READY_S
    )
    (folder / "shop" / "urls.py").unlink()  # the page shows the whole file
    return written(PAGE, folder)


@pytest.fixture
def serve(settings, project):
    """Return ``serve(*options)``, which starts the project with the page's command and returns its process and address."""
    started = []

    def begin(*options):
        port = any_free_port()
        command = [*command_of(PAGE, "gunicorn"), "--bind", f"127.0.0.1:{port}", *options]
        child = start(command, project, settings)
        started.append(child)
        return child.wait_until(lambda: serving(port)), f"http://127.0.0.1:{port}/forecast"

    yield begin
    for child in started:
        child.__exit__()


def test_django_answers_503_with_retry_after_once_five_failures_opened_the_circuit(serve, settings):
    child, url = serve("--workers", "1")
    assert [answer.text for answer in get(f"{url}/Oslo")] == ["sunny in Oslo"]
    assert [answer.status_code for answer in get(f"{url}/Atlantis", 6, at_once=1)] == [500] * 5 + [503]
    (answer,) = get(f"{url}/Oslo")
    assert 55 <= seconds_of(answer) <= 60
    child.terminate()
    found = statuses(settings)
    assert (found["success"], found["error"]) == (1, 5)
    assert found["rejected"] >= 1


@pytest.mark.parametrize("options", [[], ["--preload"], ["--max-requests", "9"]], ids=["plain", "preload", "recycled"])
def test_every_gunicorn_worker_sends_its_last_events_before_it_ends(serve, settings, options):
    child, url = serve(*options)
    answers = get(f"{url}/Oslo", 12)
    until_events(settings, lambda found: len({event["emitter_id"] for event in found}) > 1 or get(f"{url}/Oslo", 8))
    before = len(events(settings))
    answers += get(f"{url}/Oslo", 12)
    child.terminate()
    assert {answer.status_code for answer in answers} == {200}
    assert len(events(settings)) >= before + 12


def test_client_started_before_the_fork_works_in_every_gunicorn_worker(serve, project, settings):
    with (project / "shop" / "tools.py").open("a") as tools:
        tools.write("\n\nassert gear.start(wait=30)\n")
    asyncio.run(publish(settings, circuit("other", "open", 1)))
    child, url = serve("--preload")
    get(f"{url}/Oslo", 12)
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    until(lambda: {answer.status_code for answer in get(f"{url}/Oslo", 12)} == {503}, HAPPEN_S)
    child.terminate()
    assert len({event["emitter_id"] for event in events(settings)}) == 2


def test_django_middleware_refuses_in_async_views(project):
    code = """
import asyncio, os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.http import HttpResponse
from django.test import AsyncClient
from django.test.utils import setup_test_environment
from django.urls import path
from shop import tools, urls
setup_test_environment()

@tools.gear.guard("mcp:weather:get_forecast")
async def get_forecast(city):
    raise ConnectionError("the weather server is down")

async def view(request, city):
    return HttpResponse(await get_forecast(city))

urls.urlpatterns.append(path("later/<city>", view))

async def main():
    client = AsyncClient(raise_request_exception=False)
    answers = [await client.get("/later/Oslo") for _ in range(6)]
    print([answer.status_code for answer in answers], answers[-1].headers["Retry-After"])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(extra={"SWITCHGEAR_LOCAL": "true"}), cwd=project,
        capture_output=True, text=True, timeout=READY_S, check=False,
    )  # fmt: skip
    assert "[500, 500, 500, 500, 500, 503] 60" in done.stdout, done.stdout + done.stderr
