"""What the how-to tests share: a page's files in a folder, its commands as child processes, and what reached Kafka."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from switchgear_schemas.settings import Settings
from tests.support.processes import Child, environment
from tests.support.recount import read_topic
from tests.support.snippets import snippets

TOOL = "mcp:weather:get_forecast"


def command_of(page: str, program: str) -> list[str]:
    """The line of ``page`` that starts ``program``, to be run by this interpreter."""
    lines = "\n".join(snippets(page, "sh")).splitlines()
    (line,) = [line for line in lines if line.startswith(f"{program} ")]
    return [sys.executable, "-m", *shlex.split(line)]


def start(command: list[str], folder: Path, settings: Settings, **extra: str) -> Child:
    """Run ``command`` in ``folder`` with ``settings`` as its environment, its output in ``program.log`` there."""
    by_name = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": by_host_name(settings)}  # as people write it
    return Child(command, folder / "program.log", environment(settings, by_name | extra), folder)


def by_host_name(settings: Settings) -> str:
    """The test's broker by a name that has to be resolved."""
    return settings.kafka_bootstrap_servers.replace("127.0.0.1", "localhost")


def get(url: str, times: int = 1, at_once: int = 4) -> list[httpx.Response]:
    """Ask for ``url`` that often, each time by a connection of its own, so that every worker process has its share."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda _: httpx.get(url, timeout=30), range(times)))


def serving(port: int) -> bool:
    """Whether a server listens there."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def events(settings: Settings) -> list[dict[str, Any]]:
    """Every event that is in Kafka now."""
    with ThreadPoolExecutor(1) as pool:  # the test may be running in an event loop
        records = pool.submit(
            asyncio.run, read_topic(settings.kafka_bootstrap_servers, settings.topics.executions)
        ).result()
    return [json.loads(record.value) for record in records]


def statuses(settings: Settings) -> Counter[str]:
    """How many events of each status are in Kafka now."""
    return Counter(event["status"] for event in events(settings))


def until_events(settings: Settings, enough: Callable[[list[dict[str, Any]]], object], seconds: float = 30) -> None:
    """Wait until the events in Kafka are ``enough``."""
    deadline = time.monotonic() + seconds
    while not enough(found := events(settings)):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def seconds_of(answer: httpx.Response) -> int:
    """The ``Retry-After`` of a refused request."""
    assert answer.status_code == 503, answer.text
    assert answer.json() == {"detail": f"{TOOL} is unavailable"}
    return int(answer.headers["Retry-After"])
