"""The loop of the background thread looks up names and runs blocking work also while the interpreter ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from switchgear.runtime.background_thread import new_loop
from tests.support.limits import READY_S


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = new_loop()
    yield made
    made.close()


@pytest.fixture
def no_thread_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to start threads, as Python 3.12 and later do while the interpreter ends."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def ran(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> object:
    return loop.run_until_complete(loop.run_in_executor(None, work))


def test_a_host_name_is_looked_up_after_executors_were_shut_down(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)  # as when the main script has ended
    assert loop.run_until_complete(loop.getaddrinfo("localhost", 9092))


def test_blocking_work_does_not_block_the_loop_and_raises_in_its_caller(loop: asyncio.AbstractEventLoop) -> None:
    assert ran(loop, threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        ran(loop, lambda: 1 // 0)


@pytest.mark.usefixtures("no_thread_any_more")
def test_the_loop_does_blocking_work_itself_when_no_thread_can_be_started(loop: asyncio.AbstractEventLoop) -> None:
    assert ran(loop, threading.current_thread) is threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        ran(loop, lambda: 1 // 0)


@pytest.mark.slow
def test_a_lookup_that_hangs_does_not_keep_the_process_from_ending() -> None:
    code = """
import socket, threading, time
began = threading.Event()
def hang(*arguments, **options):
    began.set()
    time.sleep(600)
socket.getaddrinfo = hang
from switchgear import Switchgear
gear = Switchgear("kafka.example:9092", exit_timeout=0.5)
gear.call("t", int)
assert began.wait(60)
"""
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - began < 90
