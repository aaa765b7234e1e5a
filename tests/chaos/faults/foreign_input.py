"""Input of foreign clients: sent again, to a wrong partition, without a key, late, out of order, or not an execution."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos.faults.kind import Act, Kind
from tests.chaos.ledger import LedgerWriter, Offered
from tests.chaos.load.tools import EMITTED, EMITTED_OF_SERVER
from tests.chaos.schedule import Planned, Span
from tests.chaos.servers import owner
from tests.chaos.stage import PARTITIONS, PREFIX, Stage

BURST = 150
RESENT = ("switchgear.resent", b"1")
ANSWER_S = 60.0
BROKER_S = 0.5
"""Pause between two attempts to reach a broker."""


@dataclass
class Raw:
    """A record as a foreign client sends it."""

    key: str
    tool: str
    status: str
    value: bytes
    partition: int
    record_key: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    junk: bool = False
    counted: bool = True
    """Whether it goes into the ledger. A copy does not."""


def execution(chance: random.Random, **fields: Any) -> Raw:
    """Return a valid execution in its own partition."""
    tool = chance.choice((*EMITTED, *EMITTED_OF_SERVER))
    identity = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    given = {
        "metric_id": identity,
        "tool_name": tool,
        "status": chance.choices(["success", "timeout"], [9, 1])[0],
        "execution_time_ms": chance.randrange(500),
        "emitter_id": "foreign",
        **fields,
    }
    return Raw(identity, tool, given["status"], json.dumps(given).encode(), owner(tool, PARTITIONS), tool.encode())


def sent_again(chance: random.Random) -> list[Raw]:
    """Return executions once without, and then once or twice with the header that marks copies."""
    made = [execution(chance) for _ in range(BURST)]
    again = [each for each in made for _ in range(chance.choice([1, 1, 2]))]
    return made + [
        Raw(each.key, each.tool, each.status, each.value, each.partition, each.record_key, [RESENT], counted=False)
        for each in again
    ]


def misdirected(chance: random.Random) -> list[Raw]:
    """Return executions in another tool's partition, half of them without a key."""
    made = [execution(chance) for _ in range(BURST)]
    for place, each in enumerate(made):
        each.partition = (each.partition + 1 + place % (PARTITIONS - 1)) % PARTITIONS
        if place % 2:
            each.record_key = None
    return made


def late(chance: random.Random) -> list[Raw]:
    """Return executions that were recorded an hour ago."""
    then = datetime.fromtimestamp(time.time() - 3_600, UTC).isoformat()
    return [execution(chance, recorded_at=then) for _ in range(BURST)]


def out_of_order(chance: random.Random) -> list[Raw]:
    """Return executions recorded within the last minute, in random order, some with a time without an offset."""
    now = time.time()
    made = []
    for place in range(BURST):
        at = datetime.fromtimestamp(now - chance.uniform(0, 60), UTC)
        made.append(execution(chance, recorded_at=at.isoformat() if place % 3 else at.replace(tzinfo=None).isoformat()))
    return made


def junk(chance: random.Random) -> list[Raw]:
    """Return records that aren't executions: broken JSON, without a status, or only a name."""
    made = []
    for place in range(30):
        key = f"junk-{chance.getrandbits(128):032x}"
        value = (f'{{"tool_name": "{key}"', f'{{"tool_name": "{key}"}}', f'["{key}"]')[place % 3]
        made.append(Raw(key, "", "", value.encode(), place % PARTITIONS, b"junk", junk=True))
    return made


async def send(stage: Stage, name: str, made: list[Raw], compression: str | None = None) -> str:
    """Send in order within each partition, and note the broker's answers in a ledger."""
    ledger = LedgerWriter(stage.ledgers / f"foreign-{name}.ledger")
    producer = AIOKafkaProducer(
        bootstrap_servers=stage.cluster.bootstrap("client"), acks="all", enable_idempotence=True, linger_ms=5,
        compression_type=compression, max_request_size=64 << 20,
    )  # fmt: skip
    acknowledged = 0
    try:
        async with asyncio.timeout(ANSWER_S):
            await connected(producer)
            acknowledged = await _send_all(producer, ledger, made)
    except (KafkaError, TimeoutError) as error:
        return f"{acknowledged} of {len(made)} acknowledged ({type(error).__name__})"
    finally:
        await asyncio.wait({asyncio.ensure_future(producer.stop())}, timeout=10)
        ledger.close()
    return f"{acknowledged} of {len(made)} acknowledged"


async def connected(producer: AIOKafkaProducer) -> None:
    """Start the producer as soon as there is a broker. aiokafka itself gives up at once."""
    while True:
        try:
            await producer.start()
        except KafkaError:
            await asyncio.sleep(BROKER_S)
        else:
            return


def taken_note_of(answer: asyncio.Future[Any]) -> None:
    """Retrieve the error of an answer that is no longer awaited, so that asyncio does not complain."""
    if not answer.cancelled():
        answer.exception()


async def _send_all(producer: AIOKafkaProducer, ledger: LedgerWriter, made: list[Raw]) -> int:
    acknowledged = 0
    answers = []
    for each in made:
        number = None
        if each.counted:
            offered = Offered(each.key, each.tool, each.status, time.time())
            number = ledger.offer([offered], junk=each.junk)
        answer = await producer.send(
            f"{PREFIX}executions", each.value, key=each.record_key, partition=each.partition, headers=each.headers
        )
        answer.add_done_callback(taken_note_of)
        answers.append((number, answer))
    for number, answer in answers:
        await answer
        acknowledged += 1
        if number is not None:
            ledger.acknowledged(number, number)
    return acknowledged


def _burst(name: str, make: Callable[[random.Random], list[Raw]]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        chance = random.Random(planned.choice)
        return await send(stage, f"{name}-{planned.choice}", make(chance))

    return act


def kinds() -> dict[str, Kind]:
    """Return ``input-again``, ``-misdirected``, ``-late``, ``-out-of-order`` and ``-junk``."""
    span = Span("input", 2, 4)
    made = {
        "again": sent_again,
        "misdirected": misdirected,
        "late": late,
        "out-of-order": out_of_order,
        "junk": junk,
    }
    return {f"input-{name}": Kind(span, _burst(name, make)) for name, make in made.items()}
