"""Blocking work beside the loop: its result, its error, and an end that does not wait for it."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from switchgear_cli.up.run import in_daemon_thread
from tests.support.limits import ANSWER_S, READY_S


async def test_the_result_of_a_daemon_thread_is_returned():
    assert await in_daemon_thread(lambda: 7) == 7


async def test_the_error_of_a_daemon_thread_is_raised():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_daemon_thread(fail)


async def test_the_event_loop_goes_on_while_a_daemon_thread_works():
    release = threading.Event()
    work = asyncio.create_task(in_daemon_thread(lambda: release.wait(ANSWER_S)))
    await asyncio.sleep(0.01)
    assert not work.done()
    release.set()
    assert await asyncio.wait_for(work, ANSWER_S)


async def test_a_caller_that_stopped_waiting_is_not_disturbed_by_the_end_of_the_work():
    release = threading.Event()
    work = asyncio.create_task(in_daemon_thread(lambda: release.wait(ANSWER_S)))
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    release.set()
    await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_process_ends_while_its_daemon_thread_still_works():
    script = (
        "import asyncio, time\n"
        "from switchgear_cli.up.run import in_daemon_thread\n"
        "async def main():\n"
        "    await asyncio.wait([asyncio.create_task(in_daemon_thread(lambda: time.sleep(60)))], timeout=0.1)\n"
        "asyncio.run(main())"
    )
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", script], timeout=READY_S, check=False).returncode == 0
    assert time.monotonic() - began < 20
