"""The start of the background thread: callers don't wait for it, and a failed start raises at once and is tried again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from switchgear import Switchgear
from switchgear.runtime.background_thread import Background, NotStartedError
from tests.support.limits import ANSWER_S
from tests.support.waiting import until

really_start = threading.Thread.start


@pytest.fixture
def background():
    made = Background("test")
    yield made
    made.close(5)
    until(lambda: not made.alive)


@pytest.fixture
def no_threads(monkeypatch):
    """Make every start of a background thread fail, until the returned function is called."""
    tries = []

    def start(thread):
        if thread.name.endswith("-background"):
            tries.append(thread)
            raise RuntimeError("can't start new thread")
        really_start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return tries


def runs(background):
    """Return whether the background runs a coroutine."""

    async def work():
        await asyncio.sleep(0)
        return 1

    return background.run(work()).result(ANSWER_S) == 1


def test_loop_raises_the_reason_when_no_thread_can_be_started(background, no_threads):
    with pytest.raises(NotStartedError, match="RuntimeError: can't start new thread"):
        background.loop()
    assert not background.alive


def test_the_thread_is_started_when_threads_are_available_again(background, no_threads, monkeypatch):
    with pytest.raises(NotStartedError):
        background.loop()
    monkeypatch.setattr(threading.Thread, "start", really_start)

    def started():
        try:
            return background.loop()
        except NotStartedError:
            return None

    until(started)
    assert runs(background)


def test_loop_raises_the_reason_when_no_event_loop_can_be_made(background, monkeypatch):
    def none_left():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("switchgear.runtime.background_thread.asyncio.new_event_loop", none_left)
    with pytest.raises(NotStartedError, match="Too many open files"):
        background.loop()


def test_an_interrupted_start_raises_and_the_next_need_starts_the_thread(background, monkeypatch):
    def interrupt(_thread):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        background.loop()
    monkeypatch.setattr(threading.Thread, "start", really_start)
    assert runs(background)


def test_a_thread_that_runs_when_its_start_is_interrupted_is_kept(background, monkeypatch):
    def start(thread):
        really_start(thread)
        if thread.name.endswith("-background"):
            until(background._loop.is_running)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        background.loop()
    monkeypatch.setattr(threading.Thread, "start", really_start)
    before = set(threading.enumerate())
    assert runs(background)
    assert set(threading.enumerate()) <= before


def test_jobs_run_in_the_callers_thread_when_none_can_be_started(background, no_threads):
    ran = []

    async def job():
        while True:
            ran.append(threading.current_thread())
            await asyncio.sleep(0.001)

    background.add("job", job)
    background.start_or_run_here(lambda: len(ran) >= 3, 60)
    assert set(ran) == {threading.current_thread()}
    assert not background.alive
    ran.clear()
    background.start_or_run_here(lambda: False, 0.05)
    assert ran, "a limit ends them too"
    assert background.close(0)


def test_jobs_do_not_run_in_the_callers_thread_when_one_can_be_started(background):
    background.start_or_run_here(lambda: False, 60)
    assert background.alive
    assert runs(background)


def test_the_callers_thread_calls_on_start_after_the_start(background):
    called = []
    background.on_start.append(lambda: called.append(threading.current_thread()))
    background.loop()
    background.loop()
    assert called == [threading.current_thread()]


def test_calls_go_on_and_start_returns_false_when_no_thread_can_be_started(no_threads):
    gear = Switchgear("127.0.0.1:1")
    assert gear.start() is False
    assert gear.start(0.01) is False
    for _ in range(3):
        assert gear.call("t", int) == 0
    assert gear.status().emitter.buffered == 3
    assert gear.close(0) is False
