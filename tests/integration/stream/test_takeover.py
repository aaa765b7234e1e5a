"""A new owner restores every row that the broker has, once."""

from __future__ import annotations

import asyncio
import time
from itertools import count

import pytest

from switchgear.fleet import Row
from switchgear.fleet.rows import is_circuit
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream import takeover
from switchgear_stream.app import build_app
from switchgear_stream.inspect import read_rows
from switchgear_stream.takeover import TakeOver
from tests.support.limits import ANSWER_S


class Worker:
    """The half of a worker that writes rows and takes over."""

    def __init__(self, settings, publisher):
        _, self.table, _ = build_app(settings)
        self.publisher = publisher
        self.take_over = TakeOver(settings, publisher, self.table)

    async def write(self, partition, *names, applied=1, **fields):
        made = [Row(circuit_id=name, tool_name=name, applied=applied, **fields) for name in owned(partition, names)]
        rows = [(row.key, row.encode()) for row in made]
        for key, value in rows:
            self.table.write(partition, key, value)
        self.table.wrote(partition, await self.publisher.rows(partition, rows), len(rows))

    @property
    def names(self):
        return {key.decode().partition("~")[0] for key in self.table.rows if is_circuit(key)}

    def applied(self, name):
        """Return a row by its short name."""
        return next(Row.decode(row).applied for key, row in self.table.rows.items() if key.startswith(name.encode()))


def owned(partition, names):
    """Return these names, each with a suffix that puts it into ``partition``."""
    return [
        next(whole for number in count() if owner_partition(whole := f"{name}~{number}", 4) == partition)
        for name in names
    ]


@pytest.fixture
async def worker(settings, publisher):
    return Worker(settings, publisher)


@pytest.fixture
def other(settings, publisher):
    return Worker(settings, publisher)


async def test_an_empty_changelog_is_restored_at_once(worker):
    await asyncio.wait_for(worker.take_over.rows({0, 1, 2, 3}), ANSWER_S)
    assert worker.names == set()


async def test_every_row_of_the_owned_partitions_is_restored_from_the_first_offset_on(worker, other):
    await worker.write(1, *(f"one-{number}" for number in range(500)))
    await worker.write(2, "two")
    await worker.write(3, "three")
    await other.take_over.rows({1, 3})
    assert other.names == {"three", *(f"one-{number}" for number in range(500))}


async def test_a_partition_that_stayed_is_not_read_again(worker):
    await worker.take_over.rows({0, 1})
    await worker.write(0, "a", "b")
    await worker.write(1, "c")
    read = worker.table.read
    await worker.take_over.rows({0, 1})
    assert worker.table.read == read
    assert worker.names == {"a", "b", "c"}


async def test_rows_that_another_worker_wrote_meanwhile_are_restored(worker, other):
    await worker.take_over.rows({0})
    await worker.write(0, "mine")
    await other.take_over.rows({0})
    await other.write(0, "theirs")
    await worker.take_over.rows({0})
    assert worker.names == {"mine", "theirs"}


async def test_a_late_row_after_those_of_a_new_owner_does_not_hide_them(worker, other):
    await worker.take_over.rows({0})
    await worker.write(0, "mine", applied=1)
    await other.take_over.rows({0})
    await other.write(0, "mine", "theirs", applied=7)
    await worker.write(0, "mine", applied=2)  # it slept, and does not know
    await worker.take_over.rows({0})
    assert worker.names == {"mine", "theirs"}
    assert worker.applied("mine") == other.applied("mine") == 7
    assert worker.table.stale_rows == 1


async def test_a_row_larger_than_a_batch_and_those_around_it_count_as_written_in_one_run(worker):
    await worker.take_over.rows({0})
    await worker.take_over.finish()
    many = [f"{number:04d}" for number in range(2_000)]
    await worker.write(0, *many, last_error="x" * 600)  # several batches
    read = worker.table.read
    await worker.take_over.rows({0})
    assert worker.table.read == read
    assert len(worker.names) == 2_000


async def test_reading_a_long_changelog_has_no_time_limit(worker, other, monkeypatch):
    for start in range(0, 6_000, 1_000):
        await worker.write(0, *(f"tool-{number}" for number in range(start, start + 1_000)))
    monkeypatch.setattr(takeover, "LIMIT_S", 1.5)
    whole = takeover.read_to_end

    async def slow(*args, **kwargs):
        number = 0
        async for record in whole(*args, **kwargs):
            yield record
            number += 1
            if number % 1_000 == 0:
                await asyncio.sleep(0.4)

    monkeypatch.setattr(takeover, "read_to_end", slow)
    began = time.monotonic()
    await other.take_over.rows({0})
    assert time.monotonic() - began > 1.5
    assert len(other.names) == 6_000


async def test_a_take_over_ends_if_the_broker_delivers_no_row(worker, other, monkeypatch):
    await worker.write(0, "a")
    monkeypatch.setattr(takeover, "LIMIT_S", 0.5)

    async def silent(*_args, **_kwargs):
        await asyncio.sleep(60)
        yield None

    monkeypatch.setattr(takeover, "read_to_end", silent)
    with pytest.raises(TimeoutError):
        await other.take_over.rows({0})
    assert not other.table.holds(0, 1)


async def test_marks_of_the_changelog_are_not_read_as_rows(settings, worker):
    await worker.take_over.rows({0, 1, 2, 3})
    await worker.write(2, "two")
    await worker.take_over.rows({0, 1, 2, 3})
    assert {name.partition("~")[0] for name in await read_rows(settings)} == {"two"}
