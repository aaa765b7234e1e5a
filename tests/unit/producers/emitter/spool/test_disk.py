"""One thread for the disk: in order, errors to whoever asked, and never longer than wanted."""

from __future__ import annotations

import asyncio
import threading

import pytest

from switchgear.emitter.spool.disk import Disk


async def test_results_and_errors_come_back_to_the_loop_that_asked() -> None:
    disk = Disk("test")
    assert await disk.run(lambda: threading.current_thread().name) == "test-disk"

    def fail() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await disk.run(fail)
    assert await disk.run(lambda: 2) == 2, "it goes on"
    assert disk.finish(lambda: None, 10)


async def test_work_is_done_in_the_order_it_was_given() -> None:
    disk, done = Disk("test"), list[int]()
    await asyncio.gather(*(disk.run(lambda number=number: done.append(number)) for number in range(50)))
    assert done == list(range(50))
    assert disk.finish(lambda: done.append(50), 10)
    assert done[-1] == 50


async def test_while_it_hangs_the_loop_goes_on_and_sees_for_how_long() -> None:
    disk, hang = Disk("test"), threading.Event()
    working = asyncio.ensure_future(disk.run(lambda: hang.wait(30)))
    async with asyncio.timeout(20):
        while disk.waiting_s < 0.02:  # noqa: ASYNC110 - a clock has no event
            await asyncio.sleep(0.005)
    assert disk.finish(lambda: None, 0.05) is False
    hang.set()
    assert await working
    assert disk.finish(lambda: None, 10)


async def test_a_caller_that_goes_away_leaves_the_work_to_be_finished() -> None:
    disk, hang, done = Disk("test"), threading.Event(), list[int]()

    def work() -> None:
        hang.wait(30)
        done.append(1)

    working = asyncio.ensure_future(disk.run(work))
    await asyncio.sleep(0.01)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    hang.set()
    assert disk.finish(lambda: done.append(2), 10)
    assert done == [1, 2]


def test_without_work_before_the_last_is_done_in_the_callers_thread() -> None:
    names: list[str] = []
    assert Disk("test").finish(lambda: names.append(threading.current_thread().name), 1)
    assert names == [threading.current_thread().name]


async def test_a_thread_that_does_not_start_is_the_callers_error_and_the_next_work_tries_again(
    no_threads: threading.Event,
) -> None:
    disk, done = Disk("test"), list[int]()
    for number in range(2):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            async with asyncio.timeout(20):
                await disk.run(lambda number=number: done.append(number))
    no_threads.clear()
    async with asyncio.timeout(20):
        await disk.run(lambda: done.append(2))
    assert done == [2], "what its caller knows as failed is not done later"
    assert disk.finish(lambda: done.append(3), 10)
    assert done == [2, 3]


async def test_without_a_thread_the_last_work_is_done_all_the_same(no_threads: threading.Event) -> None:
    disk, done = Disk("test"), list[int]()
    with pytest.raises(RuntimeError):
        await disk.run(lambda: done.append(1))
    assert await disk.run(lambda: done.append(2), at_any_rate=True) is None
    assert disk.finish(lambda: done.append(3), 10)
    assert done == [2, 3]


def test_work_that_the_caller_does_itself_holds_up_the_last_only_so_long(no_threads: threading.Event) -> None:
    disk, begun, hang = Disk("test"), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        hang.wait(30)

    loop = threading.Thread(target=lambda: asyncio.run(disk.run(work, at_any_rate=True)))
    loop.start()
    assert begun.wait(20)
    assert disk.finish(lambda: None, 0.05) is False
    hang.set()
    loop.join(20)
    assert disk.finish(lambda: None, 10)


async def test_after_the_last_nothing_is_done_any_more() -> None:
    disk, done = Disk("test"), list[int]()
    assert disk.finish(lambda: done.append(1), 10)
    late = [asyncio.ensure_future(disk.run(lambda: done.append(2), at_any_rate=each)) for each in (False, True)]
    await asyncio.sleep(0.05)
    assert done == [1]
    for each in late:
        each.cancel()


async def test_while_the_interpreter_ends_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 and later start no thread then, and a script that has just begun would not have had its spool."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    disk = Disk("test")
    assert await disk.run(threading.current_thread) is threading.current_thread()
    assert disk.finish(lambda: None, 10)
