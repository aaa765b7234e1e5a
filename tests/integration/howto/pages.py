"""Helpers of the how-to tests: the commands of a page as child processes, and the events that reached Kafka."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from switchgear_schemas.settings import Settings
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, environment
from tests.support.recount import read_topic
from tests.support.snippets import snippets
from tests.support.waiting import until

TOOL = "mcp:weather:get_forecast"


def command_of(page: str, program: str) -> list[str]:
    """Return the line of ``page`` that starts ``program``, as a command for this interpreter."""
    lines = "\n".join(snippets(page, "sh")).splitlines()
    (line,) = [line for line in lines if line.startswith(f"{program} ")]
    return [sys.executable, "-m", *shlex.split(line)]


def start(command: list[str], folder: Path, settings: Settings, **extra: str) -> Child:
    """Start ``command`` in ``folder``, with ``settings`` as its environment and its output in ``program.log``."""
    by_name = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": by_host_name(settings)}  # as people write it
    return Child(command, folder / "program.log", environment(settings, by_name | extra), folder)


def by_host_name(settings: Settings) -> str:
    """Return the address of the test's broker with a host name."""
    return settings.kafka_bootstrap_servers.replace("127.0.0.1", "localhost")


def get(url: str, times: int = 1, at_once: int = 4) -> list[httpx.Response]:
    """Get ``url`` several times, each over a new connection, so that every worker process gets some requests."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda _: httpx.get(url, timeout=HAPPEN_S), range(times)))


def serving(port: int) -> bool:
    """Return whether a server listens on ``port``."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def events(settings: Settings) -> list[dict[str, Any]]:
    """Return the events in Kafka."""
    with ThreadPoolExecutor(1) as pool:  # the test may be running in an event loop
        records = pool.submit(
            asyncio.run, read_topic(settings.kafka_bootstrap_servers, settings.topics.executions)
        ).result()
    return [json.loads(record.value) for record in records]


def statuses(settings: Settings) -> Counter[str]:
    """Return the number of events in Kafka by status."""
    return Counter(event["status"] for event in events(settings))


def until_events(
    settings: Settings, enough: Callable[[list[dict[str, Any]]], object], seconds: float = HAPPEN_S
) -> None:
    """Wait until the events in Kafka satisfy ``enough``."""
    until(lambda: enough(events(settings)), seconds, state=lambda: events(settings))


def seconds_of(answer: httpx.Response) -> int:
    """Return the ``Retry-After`` of a refused request."""
    assert answer.status_code == 503, answer.text
    assert answer.json() == {"detail": f"{TOOL} is unavailable"}
    return int(answer.headers["Retry-After"])
