"""What the owner acknowledges, and when."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP
from structlog.testing import capture_logs

from switchgear.fleet import Changes, FleetFold, Message
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import load_settings
from switchgear_stream.app import build_app
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import LETTERS_EVERY_S, Owner
from switchgear_stream.watchdog import Watchdog
from tests.support.clock import Clock
from tests.support.fleet import OnePolicy, event
from tests.support.limits import ANSWER_S, HAPPEN_S

SETTINGS = load_settings(topic_prefix="t.", topic_partitions=4)
PLACE = TP(SETTINGS.topics.executions, owner_partition("search", 4))


class Recorder:
    """A publisher that notes the order of writes, and fails at ``fails_at``."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.fails: BaseException | None = None
        self.fails_at = ""

    async def rows(self, partition: int, rows: list[tuple[bytes, bytes]]) -> int:
        await self._note(f"rows of {partition}: {len(rows)}")
        return 0

    async def outputs(self, changes: Changes) -> None:
        await self._note(f"records: {len(changes.circuits)}, dead: {len(changes.dead)}")

    async def _note(self, what: str) -> None:
        await asyncio.sleep(0)
        if self.fails is not None and what.startswith(self.fails_at):
            raise self.fails
        self.order.append(what)


class Bench:
    """An owner with a table of its own and no broker."""

    def __init__(self) -> None:
        app, self.table, _ = build_app(SETTINGS)
        self.flow = SimpleNamespace(is_active=lambda: True)
        self.rewound: list[int] = []
        consumer = SimpleNamespace(committed_offset=lambda _tp: 0, rewind=self._rewind)
        self.app = SimpleNamespace(flow_control=self.flow, consumer_generation_id=3, consumer=consumer)
        self.order: list[str] = []
        self.publisher = Recorder(self.order)
        self.clock = Clock()
        self.watchdog = Watchdog(6, clock=self.clock)
        self.metrics = WorkerMetrics()
        self.owner = Owner(
            settings=SETTINGS,
            app=self.app,  # type: ignore[arg-type]
            table=self.table,
            fold=FleetFold(self.table.rows, OnePolicy(), partitions=4, late_after_s=300),
            publisher=self.publisher,  # type: ignore[arg-type]
            watchdog=self.watchdog,
            metrics=self.metrics,
        )
        self.held = app

    async def _rewind(self, _tp: TP, offset: int) -> None:
        self.rewound.append(offset)

    def batch(self, *values: bytes, first: int = 0, generation: int = 3) -> SimpleNamespace:
        """A Faust event whose value is a list of records."""
        records = [
            Message(PLACE.topic, PLACE.partition, first + number, 1000, b"search", value)
            for number, value in enumerate(values)
        ]
        message = SimpleNamespace(tp=PLACE, topic=PLACE.topic, offset=records[-1].offset, generation_id=generation)
        return SimpleNamespace(value=records, message=message, ack=lambda: self.order.append("acknowledged"))


@pytest.fixture
async def bench():
    return Bench()


async def _fails_and_must_not_finish(bench, work) -> None:
    """The watchdog hears of the failure, and the batch goes on waiting: a Faust handler that ends is acknowledged."""
    task = asyncio.create_task(work)
    async with asyncio.timeout(HAPPEN_S):
        await bench.watchdog.failed
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 0.1)


@pytest.mark.slow
async def test_rows_are_on_the_broker_before_records_and_both_before_the_acknowledgement(bench):
    await bench.owner.batch(bench.batch(*[event(status="error")] * 3, b"bad"))
    assert bench.order == [f"rows of {PLACE.partition}: 1", "records: 1, dead: 1", "acknowledged"]
    assert bench.owner.states() == {"open": 1, "closed": 0}


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", ["rows", "records"])
@pytest.mark.parametrize("error", [TimeoutError(), KafkaConnectionError(), ValueError("a bug")])
async def test_a_batch_that_can_not_be_written_is_never_acknowledged_and_ends_the_worker(bench, fails_at, error):
    bench.publisher.fails, bench.publisher.fails_at = error, fails_at
    await _fails_and_must_not_finish(bench, bench.owner.batch(bench.batch(*[event(status="error")] * 3)))
    assert "acknowledged" not in bench.order


async def test_after_a_failure_no_other_batch_is_folded(bench):
    bench.watchdog.report("failed")
    await bench.owner.batch(bench.batch(event()))
    assert bench.order == []


async def test_a_batch_of_an_older_generation_is_neither_folded_nor_acknowledged(bench):
    await bench.owner.batch(bench.batch(event(), generation=2))
    bench.flow.is_active = lambda: False
    await bench.owner.batch(bench.batch(event()))
    assert bench.order == []
    assert not bench.table.rows


async def test_a_worker_that_was_paused_past_its_session_writes_nothing(bench):
    bench.clock.now += 7
    await bench.owner.batch(bench.batch(event()))
    assert bench.watchdog.failed.done()
    assert bench.order == []


async def test_missing_records_are_read_before_what_follows_them(bench):
    await bench.owner.batch(bench.batch(event()))
    await bench.owner.batch(bench.batch(event(), first=7))
    assert bench.rewound == [1]
    assert bench.order.count("acknowledged") == 1
    await bench.owner.batch(bench.batch(*[event()] * 6, first=1))
    await bench.owner.batch(bench.batch(event(), first=7))
    assert bench.order.count("acknowledged") == 3


async def test_partitions_are_revoked_after_the_batch_at_work_is_done(bench):
    working = asyncio.create_task(bench.owner.batch(bench.batch(event())))
    await asyncio.sleep(0)
    await bench.owner.on_revoked()
    assert "acknowledged" in bench.order
    assert bench.owner.ready is False
    await working


async def test_the_metrics_show_what_was_counted(bench):
    await bench.owner.batch(bench.batch(event(), event(status="error"), b"bad"))
    await bench.owner.batch(bench.batch(event(), event(status="error"), b"bad"))
    registry = bench.metrics.registry
    assert registry.get_sample_value("switchgear_worker_executions_total") == 2
    assert registry.get_sample_value("switchgear_worker_duplicates_total") == 2
    assert registry.get_sample_value("switchgear_worker_dead_letters_total") == 2


def elsewhere(bench) -> SimpleNamespace:
    """A batch of another partition."""
    name = next(name for name in "abcdefgh" if owner_partition(name, 4) != PLACE.partition)
    made = bench.batch(event(name))
    made.message.tp = TP(PLACE.topic, owner_partition(name, 4))
    for record in made.value:
        record.partition = made.message.tp.partition
    return made


async def test_a_group_is_folded_and_written_together_and_acknowledged_at_the_end(bench):
    other = elsewhere(bench)
    await bench.owner.batch(bench.batch(*[event(status="error")] * 3), other)
    rows = sorted(f"rows of {tp.partition}: 1" for tp in (PLACE, other.message.tp))
    assert sorted(bench.order[:2]) == rows
    assert bench.order[2:] == ["records: 1, dead: 0", "acknowledged", "acknowledged"]
    assert [bench.owner.offsets.position(tp) for tp in (PLACE, other.message.tp)] == [3, 1]


async def test_only_current_batches_without_a_gap_are_folded(bench):
    stale, gap = bench.batch(event(), generation=2), bench.batch(event(), first=7)
    other = elsewhere(bench)
    await bench.owner.batch(stale, gap, other)
    assert bench.order == [f"rows of {other.message.tp.partition}: 1", "acknowledged"]
    assert bench.rewound == [0]


@pytest.mark.slow
async def test_rows_that_one_partition_did_not_get_leave_the_whole_group_unacknowledged(bench):
    other = elsewhere(bench)
    bench.publisher.fails = KafkaConnectionError()
    bench.publisher.fails_at = f"rows of {other.message.tp.partition}"
    await _fails_and_must_not_finish(bench, bench.owner.batch(bench.batch(*[event(status="error")] * 3), other))
    assert bench.order == [f"rows of {PLACE.partition}: 1"]


async def test_one_group_is_processed_at_a_time_and_a_revocation_waits_for_it(bench):
    written = asyncio.Event()
    rows = bench.publisher.rows

    async def slow(partition, found):
        await written.wait()
        return await rows(partition, found)

    bench.publisher.rows = slow
    work = [asyncio.create_task(bench.owner.batch(each)) for each in (bench.batch(event()), elsewhere(bench))]
    leaving = asyncio.create_task(bench.owner.on_revoked())
    await asyncio.sleep(0.05)
    assert set(bench.table.rows) == {b"search"}
    assert (leaving.done(), bench.order) == (False, [])
    written.set()
    await asyncio.wait_for(leaving, ANSWER_S)
    assert bench.order.count("acknowledged") == 2
    await asyncio.gather(*work)


async def test_dead_letters_are_logged_once_in_a_while_with_their_number(bench, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(bench.owner, "_letter_throttle", Throttle(LETTERS_EVERY_S, clock=clock))
    with capture_logs() as lines:
        await bench.owner.batch(bench.batch(b"bad"))
        await bench.owner.batch(bench.batch(b"bad", b"bad", first=1))
        clock.now += LETTERS_EVERY_S
        await bench.owner.batch(bench.batch(event(), first=3))
        await bench.owner.batch(bench.batch(b"bad", first=4))
    letters = [line for line in lines if line["event"] == "dead_letters"]
    place = f"{PLACE.topic}-{PLACE.partition}"
    assert [(line["count"], line["last"]) for line in letters] == [(1, f"{place}-0"), (3, f"{place}-4")]


async def test_a_cancelled_write_does_not_block_a_revocation(bench):
    async def never(_partition, _rows):
        await asyncio.Event().wait()

    bench.publisher.rows = never
    working = asyncio.create_task(bench.owner.batch(bench.batch(event())))
    await asyncio.sleep(0.05)
    working.cancel()
    await asyncio.wait_for(bench.owner.on_revoked(), ANSWER_S)
    assert "acknowledged" not in bench.order


async def test_listed_circuits_are_those_of_tools_and_families_with_closed_ones_last(bench):
    await bench.owner.batch(bench.batch(event(), *[event(tool_name="mcp:a:b", status="error")] * 3))
    for key in (b"search|user=ada", b"search|session=s1", b"mcp:a|family"):
        bench.table.write(PLACE.partition, key, b"{}")
    assert next(iter(bench.owner.circuits())) == ("mcp:a:b", "open")
    assert dict(bench.owner.circuits()) == {"mcp:a:b": "open", "search": "closed", "mcp:a|family": "closed"}
