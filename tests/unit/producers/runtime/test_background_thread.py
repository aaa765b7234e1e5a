"""There is one background thread. It is restarted when it dies, and ends when it is closed."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from switchgear.runtime import background_thread as module
from switchgear.runtime.background_thread import Background, clean_up
from switchgear_schemas.errors import SwitchgearError
from tests.support.limits import ANSWER_S
from tests.support.waiting import until


@pytest.fixture
def background():
    made = Background("test")
    yield made
    assert made.close(5)


@pytest.fixture
def again_soon(monkeypatch):
    """A job that failed is started again at once."""
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)


def test_the_thread_starts_at_the_first_need(background):
    assert not background.alive
    loop = background.loop()
    assert background.alive
    assert background.loop() is loop


def test_many_threads_that_need_it_get_the_same_one(background):
    loops = []
    threads = [threading.Thread(target=lambda: loops.append(background.loop())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert len(loops) == 20
    assert len(set(loops)) == 1


def test_the_background_runs_coroutines_and_returns_their_results(background):
    async def work():
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert background.run(work()).result(ANSWER_S) == "test-background"


@pytest.mark.usefixtures("again_soon")
def test_a_job_that_fails_is_logged_and_started_again(background, caplog):
    runs = []

    async def job():
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")
        await asyncio.sleep(3600)

    background.add("job", job)
    with caplog.at_level(logging.ERROR, "switchgear.background"):
        background.loop()
        until(lambda: len(runs) == 3)
    assert background.deaths == {"job": "ValueError: not yet"}
    assert "job failed and is started again" in caplog.text


@pytest.mark.usefixtures("again_soon")
def test_a_job_whose_task_group_fails_is_started_again_and_again(background):
    """CPython 3.11 and 3.12 leave the task of such a group as if it were cancelled."""
    runs = []

    async def fail():
        await asyncio.sleep(0.01)
        raise ValueError("not yet")

    async def job():
        runs.append(1)
        if len(runs) == 3:
            await asyncio.sleep(3600)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))
            group.create_task(fail())

    background.add("job", job)
    background.loop()
    until(lambda: len(runs) == 3)
    assert background.deaths["job"].startswith("ExceptionGroup")


@pytest.mark.usefixtures("again_soon")
def test_a_job_that_ends_with_a_cancellation_of_its_own_is_started_again(background, caplog):
    runs = []

    async def job():
        runs.append(1)
        if len(runs) < 3:
            raise asyncio.CancelledError("not yet")
        await asyncio.sleep(3600)

    background.add("job", job)
    with caplog.at_level(logging.ERROR, "switchgear.background"):
        background.loop()
        until(lambda: len(runs) == 3)
    assert background.deaths == {"job": "CancelledError: not yet"}
    assert "job failed and is started again" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_reported_and_replaced_when_it_is_needed(background, caplog):
    calls = []
    background.after_death.append(lambda: calls.append(1))

    def die():
        raise SystemExit

    running = background.loop()
    (thread,) = [each for each in threading.enumerate() if each.name == "test-background"]
    running.call_soon_threadsafe(die)
    until(lambda: not background.alive)
    until(lambda: calls)
    thread.join(ANSWER_S)  # pytest sees its exception in this test, which expects it
    assert "the background thread died" in caplog.text
    loop = background.loop()
    assert background.alive
    until(loop.is_running)


def test_closing_cancels_the_jobs_and_lets_them_clean_up(background):
    seen, began = [], threading.Event()

    async def job():
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    background.add("job", job)
    background.loop()
    assert began.wait(ANSWER_S)
    assert background.close(5)
    assert seen == ["cleaned up"]
    assert not background.alive


def test_closing_from_many_threads_lets_the_jobs_clean_up(background):
    cleaned, began, answers, joining = [], threading.Event(), [], []

    async def job():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            while len(joining) < 8:  # noqa: ASYNC110 - of other threads
                await asyncio.sleep(0.001)
            cleaned.append(True)

    background.add("job", job)
    background.loop()
    assert began.wait(ANSWER_S)
    running = background._thread
    join = running.join

    def noted(limit_s):
        joining.append(limit_s)
        join(limit_s)

    running.join = noted
    threads = [threading.Thread(target=lambda: answers.append(background.close(10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert answers == [True] * 8
    assert cleaned == [True]


def test_a_close_in_the_background_thread_does_not_wait_for_itself(background):
    async def work():
        return background.close(60)

    assert background.run(work()).result(ANSWER_S) is False
    until(lambda: not background.alive)


def test_a_closed_background_is_not_started_again(background):
    background.close(1)
    with pytest.raises(SwitchgearError, match="closed"):
        background.loop()


def test_a_coroutine_that_cannot_be_run_is_closed(background):
    background.close(1)

    async def work():
        await asyncio.sleep(0)

    with pytest.raises(SwitchgearError):
        background.run(work())


async def test_a_clean_up_runs_even_when_its_caller_is_already_cancelled():
    done = []

    async def work():
        await asyncio.sleep(0.01)
        done.append(1)

    async def caller():
        asyncio.current_task().cancel()
        await clean_up(work(), 5, "test")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())
    assert done == [1]


async def test_a_clean_up_is_bounded_and_returns_false_when_it_fails():
    async def broken():
        await asyncio.sleep(0)
        raise ValueError

    assert await clean_up(asyncio.sleep(0), 5, "test") is True
    assert await clean_up(asyncio.sleep(60), 0.05, "test") is False
    assert await clean_up(broken(), 5, "test") is False
