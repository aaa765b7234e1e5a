"""Records in every topic that no reader can use, or that the broker accepts although they are too large for the product."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos.evidence import GARBAGE
from tests.chaos.faults.foreign_input import ANSWER_S, BROKER_S, Raw, connected, execution, send, taken_note_of
from tests.chaos.faults.kind import Act, Kind
from tests.chaos.load.tools import EMITTED, SERVERS
from tests.chaos.schedule import Planned, Span
from tests.chaos.servers import owner, server_circuit
from tests.chaos.stage import PARTITIONS, PREFIX, Stage
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw

MB: Final = 1 << 20
IMPOSSIBLE: Final = (
    *('"sliding_window_size":' + text for text in ("0", "-1", "1e-300", "5e-324", "1e300", "1e999", "NaN", "true", '"10"')),
    *('"failure_rate_threshold":' + text for text in ("0", "2", "-1", "NaN", "Infinity", "true", '"0.5"')),
    *('"wait_duration_in_open_state_s":' + text for text in ("-1", "1e300", "NaN", "Infinity", '"1"')),
    *('"permitted_number_of_calls_in_half_open_state":' + text for text in ("0", "-1", "1000000000", "1.5", "true")),
    *('"minimum_number_of_calls":' + text for text in ("0", "-1", "1180591620717411303424", "1e999")),
    *('"sliding_window_panes":' + text for text in ("0", "-1", "1000000000")),
    *('"cusum":' + text for text in ("5", '{"tolerable_failure_rate":1}', '{"broken_failure_rate":NaN}')),
    '"no_such_rule":1',
    '"fallback":"' + "x" * 300_000 + '"',
)  # fmt: skip
"""Parts of a policy that every worker must refuse."""


def oversized(chance: random.Random) -> list[Raw]:
    """Return a record of 20 MB that compresses well."""
    key = f"junk-{chance.getrandbits(128):032x}"
    value = json.dumps({"tool_name": key, "status": "error", "error_message": "x" * 20 * MB}).encode()
    return [Raw(key, "", "", value, chance.randrange(PARTITIONS), b"junk", junk=True)]


def keys(chance: random.Random) -> list[Raw]:
    """Return executions with keys of 3 MB, in their own partition and in another one."""
    made = [execution(chance) for _ in range(3)]
    made[1].partition = (made[1].partition + 1) % PARTITIONS
    for each in made:
        each.record_key = chance.randbytes(3 * MB)
    return made


def headers(chance: random.Random) -> list[Raw]:
    """Return executions with a header of 3 MB or with thousands of headers, in their own partition and in another one."""
    made = [execution(chance) for _ in range(4)]
    for place, each in enumerate(made):
        each.partition = (each.partition + place % 2) % PARTITIONS
        large = [("large", chance.randbytes(3 * MB))]
        each.headers = large if place < 2 else [(f"header-{number}", b"x" * 50) for number in range(20_000)]
    return made


def _burst(name: str, make: Callable[[random.Random], list[Raw]], compression: str | None = None) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        made = make(random.Random(planned.choice))
        return await send(stage, f"{name}-{planned.choice}", made, compression)

    return act


async def _unreadable(stage: Stage, planned: Planned) -> str:
    """Send batches that Kafka's client can't read: an invalid header name, bytes after a stream, and one that unpacks to 200 MB."""
    chance = random.Random(planned.choice)
    odd = RawRecord(execution(chance).value, b"odd", [(b"\xff", b"")])
    batches = [
        batch(payload([odd, odd]), 2),
        batch(compressed(payload([odd]), "lz4") + b"garbage", 1, "lz4"),
        batch(compressed(payload([RawRecord(bytes(200 * MB))]), "zstd"), 1, "zstd"),
    ]
    topic, partition = f"{PREFIX}executions", chance.randrange(PARTITIONS)
    sent, loop = 0, asyncio.get_running_loop()
    deadline = loop.time() + ANSWER_S
    while sent < len(batches) and loop.time() < deadline:
        try:
            async with asyncio.timeout(ANSWER_S):
                await produce_raw(stage.settings("client"), topic, partition, batches[sent : sent + 1])
        except (KafkaError, TimeoutError, OSError, AssertionError):
            await asyncio.sleep(BROKER_S)
        else:
            sent += 1
    return f"{sent} of {len(batches)} batches in partition {partition}"


def garbage(chance: random.Random) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Yield topic, partition, key and value of records that no reader can use, with new keys and with keys of circuits."""
    for topic in ("worker-circuits-changelog", "circuits", "commands", "executions.dead"):
        for value in (
            b"garbage",
            b"\xff" * 100,
            b"{}",
            b"[" * 10_000,
            chance.randbytes(500),
            chance.randbytes(MB // 2),
        ):
            circuit = chance.choice((*EMITTED, *map(server_circuit, SERVERS)))
            yield topic, owner(circuit, PARTITIONS), circuit.encode(), value
            yield topic, chance.randrange(PARTITIONS), chance.randbytes(20), value
        yield topic, chance.randrange(PARTITIONS), b"\x00mark", b"garbage"


def policies(chance: random.Random) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Yield commands that set impossible policies."""
    for rule in IMPOSSIBLE:
        tool = chance.choice(EMITTED)
        yield (
            "commands",
            owner(tool, PARTITIONS),
            tool.encode(),
            command(tool, rule, uuid.UUID(int=chance.getrandbits(128))),
        )


def command(tool: str, rule: str, identity: uuid.UUID) -> bytes:
    """Return a command that sets a policy with only this rule."""
    given = {"command_id": str(identity), "tool_name": tool, "verb": "set_policy", "actor": "chaos"}
    return (json.dumps(given)[:-1] + ', "policy": {' + rule + "}}").encode()


def _records(make: Callable[[random.Random], Iterator[tuple[str, int, bytes, bytes]]]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        made = list(make(random.Random(planned.choice)))
        producer = AIOKafkaProducer(
            bootstrap_servers=stage.cluster.bootstrap("client"), acks="all", max_request_size=4 * MB
        )
        answers: list[asyncio.Future[object]] = []
        try:
            async with asyncio.timeout(ANSWER_S):
                await connected(producer)
                for topic, partition, key, value in made:
                    answer = await producer.send(
                        f"{PREFIX}{topic}", value, key=key, partition=partition, headers=[(GARBAGE, b"1")]
                    )
                    answer.add_done_callback(taken_note_of)
                    answers.append(answer)
                await asyncio.gather(*answers)
        except (KafkaError, TimeoutError) as error:
            return f"not all of {len(made)} acknowledged ({type(error).__name__})"
        finally:
            await asyncio.wait({asyncio.ensure_future(producer.stop())}, timeout=10)
        return f"{len(made)} records"

    return act


def kinds() -> dict[str, Kind]:
    """Return ``poison-oversized``, ``-keys``, ``-headers``, ``-unreadable``, ``-state`` and ``-policies``."""
    acts = {
        "oversized": _burst("oversized", oversized, "gzip"),
        "keys": _burst("keys", keys),
        "headers": _burst("headers", headers),
        "unreadable": _unreadable,
        "state": _records(garbage),
        "policies": _records(policies),
    }
    return {f"poison-{name}": Kind(Span("poison", 0.5, 1), act) for name, act in acts.items()}
