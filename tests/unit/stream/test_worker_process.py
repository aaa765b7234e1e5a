from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from switchgear.fleet import Changes
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream.publisher import by_partition
from switchgear_stream.watchdog import Watchdog
from switchgear_stream.worker import EX_SOFTWARE, leave, wait_for_end
from tests.support.limits import ANSWER_S


async def _forever() -> None:
    await asyncio.Event().wait()


async def _broken() -> None:
    raise ValueError("Faust is gone")


async def _end(work, *, stop: bool = False, cancel: bool = False) -> tuple[int, Watchdog]:
    watchdog, stopping = Watchdog(6), asyncio.Event()
    task = asyncio.create_task(work)
    if stop:
        stopping.set()
    if cancel:
        task.cancel()
    code = await asyncio.wait_for(wait_for_end({task: "faust"}, stopping, watchdog), ANSWER_S)
    task.cancel()
    return code, watchdog


async def test_a_signal_ends_the_worker_with_code_zero():
    code, watchdog = await _end(_forever(), stop=True)
    assert code == 0
    assert not watchdog.failed.done()


@pytest.mark.slow
async def test_a_task_that_raises_ends_the_worker_with_its_reason():
    code, watchdog = await _end(_broken())
    assert code == EX_SOFTWARE
    assert "faust" in watchdog.failed.result()
    assert "Faust is gone" in watchdog.failed.result()


async def test_a_task_that_is_cancelled_or_returns_is_a_failure_of_the_worker():
    for work, cancel in ((_forever(), True), (asyncio.sleep(0), False)):
        code, watchdog = await _end(work, cancel=cancel)
        assert code == EX_SOFTWARE
        assert watchdog.failed.done()


async def test_a_failure_wins_over_a_signal():
    watchdog, stopping = Watchdog(6), asyncio.Event()
    stopping.set()
    watchdog.report("no broker")
    task = asyncio.create_task(_forever())
    assert await wait_for_end({task: "faust"}, stopping, watchdog) == EX_SOFTWARE
    task.cancel()


async def test_leaving_the_group_ends_after_its_limit():
    await asyncio.wait_for(leave(SimpleNamespace(stop=_forever), 0.01), ANSWER_S)


def test_rows_go_to_the_partition_of_their_tool():
    rows = {b"a": ("a", b"1"), b"a|user=u": ("a", b"2"), b"b": ("b", b"3")}
    rows |= {b"mcp:s:t": ("mcp:s:t", b"4"), b"mcp:s|family": ("mcp:s", b"5")}
    found = by_partition(Changes(rows=rows), 4, "mcp:*:*")
    assert found[owner_partition("mcp:s", 4)][-2:] == [(b"mcp:s:t", b"4"), (b"mcp:s|family", b"5")]
    assert found[owner_partition("a", 4)][:2] == [(b"a", b"1"), (b"a|user=u", b"2")]
    assert sum(map(len, found.values())) == 5
