"""How the process ends."""

from __future__ import annotations

import asyncio

from switchgear.fleet import Changes
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream.publisher import by_partition
from switchgear_stream.watchdog import Watchdog
from switchgear_stream.worker import EX_SOFTWARE, _bounded, _first_end


async def _forever() -> None:
    await asyncio.Event().wait()


async def _broken() -> None:
    raise ValueError("Faust is gone")


async def _end(work, *, stop: bool = False, cancel: bool = False) -> tuple[int, Watchdog]:
    watchdog, told = Watchdog(6), asyncio.Event()
    task = asyncio.create_task(work)
    if stop:
        told.set()
    if cancel:
        task.cancel()
    code = await asyncio.wait_for(_first_end({task: "faust"}, told, watchdog), 5)
    task.cancel()
    return code, watchdog


async def test_a_signal_ends_it_with_zero():
    code, watchdog = await _end(_forever(), stop=True)
    assert code == 0
    assert not watchdog.failed.done()


async def test_a_task_that_dies_ends_it_with_a_reason():
    code, watchdog = await _end(_broken())
    assert code == EX_SOFTWARE
    assert "faust" in watchdog.failed.result()
    assert "Faust is gone" in watchdog.failed.result()


async def test_a_task_that_is_cancelled_or_returns_is_a_failure_too():
    for work, cancel in ((_forever(), True), (asyncio.sleep(0), False)):
        code, watchdog = await _end(work, cancel=cancel)
        assert code == EX_SOFTWARE
        assert watchdog.failed.done()


async def test_a_failure_wins_over_a_signal():
    watchdog, told = Watchdog(6), asyncio.Event()
    told.set()
    watchdog.report("no broker")
    task = asyncio.create_task(_forever())
    assert await _first_end({task: "faust"}, told, watchdog) == EX_SOFTWARE
    task.cancel()


async def test_stopping_is_bounded():
    await asyncio.wait_for(_bounded(_forever(), 0.01, "it"), 1)


def test_rows_go_to_the_partition_of_their_tool():
    rows = {b"a": ("a", b"1"), b"a|user=u": ("a", b"2"), b"b": ("b", b"3")}
    found = by_partition(Changes(rows=rows), 4)
    assert found[owner_partition("a", 4)][:2] == [(b"a", b"1"), (b"a|user=u", b"2")]
    assert sum(map(len, found.values())) == 3
