"""Batches of different partitions overlap; those of one partition never do, and keep their order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from switchgear_stream.lanes import Lanes


def _batch(partition: int, name: str, topic: str = "executions") -> SimpleNamespace:
    return SimpleNamespace(message=SimpleNamespace(partition=partition, topic=topic), name=name)


class Work:
    """Notes what begins and ends; a batch ends when it is told to."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.errors: list[BaseException] = []

    async def __call__(self, event) -> None:
        self.log.append(f"begin {event.name}")
        gate = self.gates.setdefault(event.name, asyncio.Event())
        await gate.wait()
        self.log.append(f"end {event.name}")


async def test_a_batch_of_another_partition_begins_before_the_first_is_done():
    work = Work()
    lanes = Lanes(work, work.errors.append)
    await lanes.put(_batch(0, "a"))
    await lanes.put(_batch(1, "b"))
    assert work.log == ["begin a", "begin b"]


async def test_the_next_batch_of_a_partition_waits_for_the_one_before_it_whatever_its_topic():
    work = Work()
    lanes = Lanes(work, work.errors.append)
    await lanes.put(_batch(0, "a"))
    waiting = asyncio.create_task(lanes.put(_batch(0, "b", "commands")))
    await asyncio.sleep(0.01)
    assert (work.log, waiting.done()) == (["begin a"], False)
    work.gates["a"].set()
    await asyncio.wait_for(waiting, 5)
    assert work.log == ["begin a", "end a", "begin b"]


async def test_order_is_kept_over_many_batches():
    done: list[tuple[int, int]] = []

    async def work(event) -> None:
        await asyncio.sleep(0.001 * (event.name % 3))
        done.append((event.message.partition, event.name))

    lanes = Lanes(work, lambda error: None)
    for number in range(60):
        await lanes.put(_batch(number % 4, number))
    await asyncio.sleep(0.05)
    for partition in range(4):
        assert [name for found, name in done if found == partition] == list(range(partition, 60, 4))


async def test_an_exception_is_told_and_the_lane_goes_on():
    work = Work()
    error = ValueError("a bug")

    async def broken(_event) -> None:
        raise error

    lanes = Lanes(broken, work.errors.append)
    await lanes.put(_batch(0, "a"))
    await lanes.put(_batch(0, "b"))
    await asyncio.sleep(0.01)
    assert work.errors == [error, error]
