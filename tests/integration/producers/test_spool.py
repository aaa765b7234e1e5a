"""Kafka is down at the start, or later, and comes back: with a spool every event arrives once and in order, also after ``kill -9``."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from switchgear import Emitter, Event, Switchgear
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings, load_settings
from switchgear_sinks.store import open_store
from tests.support import waiting
from tests.support.delivered import assert_each_arrived, assert_in_order, is_marked, metric_id_of, number_of
from tests.support.kafka import own_kafka
from tests.support.limits import HAPPEN_S
from tests.support.processes import python
from tests.support.sinking import assert_exact, read_topic, sinking

LIMIT = 64 * 1_048_576


class Away:
    """A broker for one test that can be started and stopped. It is stopped at first."""

    def __init__(self, folder: Path) -> None:
        port = any_free_port()
        self.settings: Settings = load_settings(
            kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="spool.", topic_partitions=4,
            clickhouse_url=f"chdb:{folder}/clickhouse",
        )  # fmt: skip
        self.spool = folder / "spool"
        self.broker = own_kafka(folder / "kafka", port)
        self._made = False

    def come(self) -> None:
        self.broker.start()
        if not self._made:
            asyncio.run(ensure_topics(self.settings))
            self._made = True

    def go(self) -> None:
        self.broker.stop()

    def emitter(self, **options: Any) -> Emitter:
        given: dict[str, Any] = {"spool_dir": self.spool, "spool_bytes": LIMIT, "buffer_size": 1_000}
        return Emitter(self.settings.kafka, topic_prefix=self.settings.topic_prefix, **(given | options))

    def records(self) -> list[Any]:
        return asyncio.run(read_topic(self.settings, self.settings.topics.executions))


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    found = Away(tmp_path)
    yield found
    found.broker.stop()


@contextmanager
def closing(emitter: Emitter) -> Iterator[Emitter]:
    try:
        yield emitter
    finally:
        emitter.close(0)


until = functools.partial(waiting.until, seconds=HAPPEN_S)


def emit(emitter: Emitter, first: int, last: int) -> None:
    """Emit no faster than the background takes the events: memory holds a thousand."""
    for number in range(first, last):
        assert emitter.emit(Event(f"t{number % 5}", "success", metadata={"number": number}))
        if number % 100 == 0:
            until(lambda: emitter.status().buffered < 700)


def assert_overtook(records: list[Any], number: int) -> None:
    """Check that the request for a probe overtook the spool: events emitted before it are behind it in the log."""
    ours = [each for each in records if each.key == b"t0"]
    places = {json.loads(each.value)["metadata"]["number"]: each.offset for each in ours}
    assert places[number] < places[15_995]


def test_every_event_arrives_once_in_order_when_kafka_is_away_at_the_start_and_later(away: Away) -> None:
    """A buffer of a thousand, five thousand events in each absence. Without a spool the oldest of them are counted as dropped."""
    forgetful = away.emitter(spool_dir=None)
    with closing(forgetful), closing(away.emitter(in_flight=200)) as emitter:
        for number in range(20_000, 23_000):
            forgetful.emit(Event(f"t{number % 5}", "success", metadata={"number": number}))
        assert (forgetful.status().dropped, forgetful.status().buffered) == (2_000, 1_000)
        emit(emitter, 0, 500)
        until(lambda: emitter.status().spooled == 500)
        emit(emitter, 500, 5_000)
        until(lambda: emitter.status().spooled == 5_000)
        status = emitter.status()
        assert status.spool is not None
        assert (status.dropped, status.spool.in_use, status.spool.error) == (0, True, None)
        assert status.away_s is not None
        away.come()
        assert emitter.flush(HAPPEN_S), emitter.status()
        assert emitter.status().away_s is None
        assert forgetful.flush(HAPPEN_S), forgetful.status()
        found = forgetful.status()
        assert (found.emitted, found.acknowledged, found.dropped, found.failed) == (3_000, 1_000, 2_000, 0)
        assert forgetful.close()
        emit(emitter, 5_000, 6_000)
        assert emitter.flush(HAPPEN_S), emitter.status()
        away.go()
        emit(emitter, 6_000, 16_000)
        until(lambda: (found := emitter.status()).spooled == 10_000 and not found.buffered)
        away.come()
        until(lambda: emitter.status().acknowledged > 6_000)
        emitter.emit(Event("t0", "rejected", probe_requested=True, metadata={"number": -1}), urgent=True)
        emit(emitter, 16_000, 16_500)
        assert emitter.flush(HAPPEN_S), emitter.status()
        status = emitter.status()
        assert (status.emitted, status.acknowledged, status.dropped, status.failed) == (16_501, 16_501, 0, 0)
        until(lambda: (spool := emitter.status().spool) is not None and spool.bytes == 0)
        records = away.records()
        assert_each_arrived(records, [*range(-1, 16_500), *range(22_000, 23_000)])
        assert_in_order([each for each in records if 0 <= number_of(each) < 20_000])
        assert_overtook(records, -1)
        assert emitter.close()
    assert list(away.spool.iterdir()) == [], "nothing is left on disk"


CRASHING = """
import sys, time
from switchgear import Emitter, Event
bootstrap, prefix, folder, first, last = sys.argv[1:]
emitter = Emitter(bootstrap, topic_prefix=prefix, spool_dir=folder)
for number in range(int(first), int(last)):
    emitter.emit(Event(f"t{number % 5}", "success", metadata={"number": number}))
while (status := emitter.status()).buffered or status.spooled < int(last) - int(first):
    time.sleep(0.01)
print("spooled", flush=True)
time.sleep(600)
"""


def crash(away: Away, log: Path, first: int, last: int) -> None:
    """Run a process that emits while Kafka is down, and kill it when all events are on disk."""
    arguments = (
        away.settings.kafka_bootstrap_servers,
        away.settings.topic_prefix,
        str(away.spool),
        str(first),
        str(last),
    )
    with python(CRASHING, *arguments, log=log) as child:
        child.wait_for_output("spooled")
        child.kill9()


SENDING = """
import sys, time
from switchgear import Emitter, Event
bootstrap, prefix, folder = sys.argv[1:]
emitter = Emitter(bootstrap, topic_prefix=prefix, spool_dir=folder, in_flight=500)
emitter.emit(Event("t0", "success", metadata={"number": -1}))
while emitter.status().acknowledged < 1:
    time.sleep(0.001)
print("sending", flush=True)
number = 0
while True:
    for _ in range(50):
        emitter.emit(Event(f"t{number % 5}", "success", metadata={"number": number}))
        number += 1
    if number % 5000 == 0:
        print("emitted", number, flush=True)
    time.sleep(0.002)
"""


RESENDING = """
import sys, time
from switchgear import Emitter
from switchgear.emitter import spool_router
spool_router.AT_ONCE = 100
emitter = Emitter(sys.argv[1], topic_prefix=sys.argv[2], spool_dir=sys.argv[3], in_flight=400)
assert emitter.connect(40)
while emitter.status().acknowledged < 3_000:
    time.sleep(0.0005)
print("sending", flush=True)
time.sleep(600)
"""


@pytest.mark.deep
def test_no_event_is_lost_or_stored_twice_when_processes_are_killed_before_and_while_their_spool_is_sent(
    away: Away, tmp_path: Path
) -> None:
    """Two die while Kafka is away, the second with the first one's events. The third takes both over and dies while it sends:
    some are acknowledged, some on their way. The fourth sends what is not known to have arrived, marked where it may have,
    and the sink stores each once."""
    crash(away, tmp_path / "first.log", 0, 2_000)
    crash(away, tmp_path / "second.log", 2_000, 20_000)
    away.come()
    arguments = (away.settings.kafka_bootstrap_servers, away.settings.topic_prefix, str(away.spool))
    with python(RESENDING, *arguments, log=tmp_path / "slow.log") as child:
        child.wait_for_output("sending")
        child.kill9()
    arrived = away.records()
    assert 3_000 <= len(arrived) < 20_000
    assert_in_order(arrived)
    assert not any(map(is_marked, arrived)), "none had ever been handed to Kafka"
    with closing(away.emitter()) as emitter:
        emit(emitter, 20_000, 20_100)
        assert emitter.connect(40)
        until(lambda: (spool := emitter.status().spool) is not None and spool.taken_over)
        assert emitter.flush(HAPPEN_S), emitter.status()
        assert emitter.close()
    records = away.records()
    assert_each_arrived(records, range(20_100))
    assert sum(map(is_marked, records)) < 2_000, "what was never handed over doesn't"
    assert list(away.spool.iterdir()) == [], "nothing is left on disk"

    async def stored() -> None:
        store = await open_store(away.settings)
        try:
            async with sinking(away.settings, store) as sink:
                await sink.until_committed(away.settings)
                await assert_exact(store, 20_100)
        finally:
            await store.close()

    asyncio.run(stored())


@pytest.mark.deep
def test_events_in_flight_of_a_killed_process_are_on_disk(away: Away, tmp_path: Path) -> None:
    """Kafka goes while the process sends: what was in flight is copied to the disk, so a crash then loses nothing of it."""
    away.come()
    arguments = (away.settings.kafka_bootstrap_servers, away.settings.topic_prefix, str(away.spool))
    code = (
        SENDING.replace("while True:", "while number < 20_000:")
        + """
while emitter.status().buffered or not emitter.status().spooled:
    time.sleep(0.01)
print("spooled", emitter.status(), flush=True)
time.sleep(600)
"""
    )
    with python(code, *arguments, log=tmp_path / "child.log") as child:
        child.wait_for_output("emitted 5000")
        away.go()
        child.wait_for_output("spooled")
        child.kill9()
    away.come()
    with closing(away.emitter()) as emitter:
        emitter.emit(Event("t0", "success", metadata={"number": 20_000}))
        until(lambda: (spool := emitter.status().spool) is not None and spool.taken_over)
        assert emitter.flush(HAPPEN_S), emitter.status()
        assert emitter.close()
    records = away.records()
    assert_each_arrived(records, range(-1, 20_001))


@pytest.mark.deep
@pytest.mark.parametrize("on_disk", [True, False], ids=["with a spool", "in memory"])
def test_guarded_calls_of_an_outage_are_recorded_each_once(away: Away, *, on_disk: bool) -> None:
    """The outage finds plain successes in flight, queued and in the buffer, and splits their batches."""
    away.come()
    kafka, spool = away.settings.kafka_bootstrap_servers, away.spool if on_disk else None
    with Switchgear(kafka, topic_prefix=away.settings.topic_prefix, spool_dir=spool) as gear:
        assert gear.start(HAPPEN_S)
        tools = [gear.guard(f"t{number}")(lambda: "found") for number in range(3)]
        calls = 0

        def burst(until_buffered: int) -> None:
            nonlocal calls
            for _ in range(4):
                for tool in tools * 1_000:
                    tool()
                calls += 3_000
            until(lambda: gear.status().emitter.buffered >= until_buffered)

        burst(0)
        away.go()
        burst(0 if on_disk else 12_000)
        if on_disk:
            until(lambda: gear.status().emitter.spooled >= 12_000)
        away.come()
        burst(0)
        assert gear.flush(HAPPEN_S), gear.status()
        found = gear.status().emitter
        assert (found.emitted, found.acknowledged, found.dropped, found.failed) == (calls, calls, 0, 0)
    records = away.records()
    ids = set(map(metric_id_of, records))
    assert len(ids) == calls
    assert_each_arrived(records, ids, by=metric_id_of)
