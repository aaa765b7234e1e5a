"""An owner's tasks run beside it, and end with it."""

import asyncio

from switchgear.runtime.tasks import Tasks


async def test_a_task_runs_beside_its_owner_and_gives_its_result():
    tasks = Tasks()

    async def work() -> int:
        return 7

    assert await tasks.start(work()) == 7


async def test_those_that_run_are_cancelled_and_those_that_have_ended_are_forgotten():
    tasks = Tasks()
    ended = tasks.start(asyncio.sleep(0))
    await ended
    running = tasks.start(asyncio.sleep(3600))
    await asyncio.sleep(0)
    await tasks.end(5)
    assert running.cancelled()
    assert not ended.cancelled()
    await tasks.end(5)  # there is nothing to wait for


async def test_a_task_that_does_not_end_is_waited_for_so_long_and_no_longer():
    tasks, go_on = Tasks(), asyncio.Event()

    async def deaf() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    task = tasks.start(deaf())
    await asyncio.sleep(0)
    await tasks.end(0.01)
    assert not task.done()
    go_on.set()
    await task
