"""Helpers for tests of the worker with a real Kafka: sending events, reading records, and an independent recount."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from switchgear_schemas import Circuit, Command, DeadLetter
from switchgear_schemas.settings import Settings
from switchgear_stream.topic_reader import read_to_end
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import Child

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]], *, timeout_s: float = HAPPEN_S, what: str = "it") -> T:
    """Call ``look`` until its answer is true. Fail with the last answer."""
    deadline = time.monotonic() + timeout_s
    while not (found := await look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {timeout_s} s; last seen: {found!r}")
        await asyncio.sleep(0.1)
    return found


async def emit(settings: Settings, events: Iterable[dict[str, Any]], *, key_of: Callable[[str], str] = str) -> None:
    """Send executions, keyed by their tool or by what ``key_of`` makes of its name, and wait for the broker."""
    messages = [(key_of(event["tool_name"]).encode(), json.dumps(event).encode(), None) for event in events]
    await send(settings, settings.topics.executions, messages)


async def send(
    settings: Settings, topic: str, messages: Iterable[tuple[bytes | None, bytes | None, int | None]]
) -> None:
    """Send (key, value, partition) and wait for the broker."""
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", max_request_size=6_000_000, linger_ms=2)
    await producer.start()
    try:
        sent = [
            await producer.send(topic, key=key, value=value, partition=partition) for key, value, partition in messages
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def command(settings: Settings, tool_name: str, verb: str, **fields: Any) -> None:
    """Send a command as an operator."""
    given = Command.from_dict({"tool_name": tool_name, "verb": verb, "actor": "ada", **fields})
    await send(settings, settings.topics.commands, [(tool_name.encode(), given.to_bytes(), None)])


async def recount(settings: Settings) -> dict[str, Counter[str]]:
    """Return the statuses by tool, counted from the executions topic by a plain consumer without the worker's code."""
    consumer = AIOKafkaConsumer(**settings.kafka.options(), group_id=None, auto_offset_reset="earliest")
    await consumer.start()
    try:
        places = [TopicPartition(settings.topics.executions, p) for p in range(settings.topic_partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: dict[str, Counter[str]] = {}
        while any([await consumer.position(place) < ends[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    if any(name == "switchgear.rekeyed" for name, _ in record.headers):
                        continue  # a copy that a worker made
                    event = json.loads(record.value)
                    found.setdefault(event["tool_name"], Counter())[event["status"]] += 1
        return found
    finally:
        await consumer.stop()


async def dead_letters(settings: Settings) -> list[DeadLetter]:
    """Return every dead letter, oldest first within a partition."""
    return [
        DeadLetter.from_record(record.value, record.headers)
        async for record in read_to_end(settings, settings.topics.dead)
    ]


def version_faults(records: list[Circuit]) -> list[str]:
    """Return the places where versions of a circuit do not rise, or where a version has two contents."""
    faults = []
    for before, after in itertools.pairwise(records):
        if after.version < before.version:
            faults.append(f"{before.version} then {after.version}")
        if after.version == before.version and after != before:
            faults.append(f"two contents of version {after.version}")
    return faults


def http_port(worker: Child) -> int:
    """Return the HTTP port of a worker that was started with port 0."""
    found = re.search(r"address=127\.0\.0\.1:(\d+)", worker.output())
    assert found is not None, worker.output()
    return int(found.group(1))


def get(worker: Child, path: str) -> tuple[int, str]:
    """Return the status and the body of one of the worker's routes."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port(worker)}{path}", timeout=ANSWER_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(worker: Child, name: str) -> float:
    """Return a sample of a worker's metrics, by its full name and labels."""
    for line in get(worker, "/metrics")[1].splitlines():
        if line.startswith(f"{name} "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{name} is not among the metrics")
