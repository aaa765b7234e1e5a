"""However a run ends, its processes and its folder go with it."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.chaos.run import Run
from tests.chaos.stage import REPOSITORY, Stage, own_environment
from tests.support.limits import HAPPEN_S
from tests.support.waiting import holds_within

pytestmark = pytest.mark.deep

LIMIT_S = HAPPEN_S


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Where a run puts its folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def below(pid=None):
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


async def test_a_run_that_is_cancelled_ends_what_it_has_started(folders):
    before = {child.pid for child in below()}
    run = asyncio.create_task(Run(1, 60, brokers=1, kinds={}, say=lambda _: None).go())
    assert await holds_within(lambda: len(below()) >= len(before) + 2, LIMIT_S)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert {child.pid for child in below()} == before
    assert not list(folders.iterdir())


async def test_a_run_that_fails_ends_what_it_has_started_and_says_where_the_logs_are(folders, monkeypatch):
    said = []

    async def fails(self):
        self.clickhouse.spawn()
        raise RuntimeError("no brokers today")

    monkeypatch.setattr(Stage, "start", fails)
    before = {child.pid for child in below()}
    with pytest.raises(RuntimeError, match="no brokers today"):
        await Run(1, 60, brokers=1, kinds={}, say=said.append).go()
    assert {child.pid for child in below()} == before
    (kept,) = folders.iterdir()
    assert said[-1] == f"The logs are in {kept}"
    assert (kept / "logs" / "clickhouse.log").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_command_leaves_no_process_whatever_ends_it(folders, number):
    command = [sys.executable, "-m", "tests.chaos", "--seconds", "60", "--seed", "1", "--brokers", "1"]
    with (folders / "out").open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=own_environment(), stdout=output, stderr=output)
    deadline = time.monotonic() + LIMIT_S
    try:
        while len(below(process.pid)) < 2:
            assert process.poll() is None, Path(folders / "out").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = below(process.pid)
        process.send_signal(number)
        assert process.wait(LIMIT_S) != 0
        gone, alive = psutil.wait_procs(started, timeout=LIMIT_S)
        assert not alive
        assert gone
        if number is not signal.SIGKILL:
            assert [entry.name for entry in folders.iterdir()] == ["out"]
    finally:
        process.kill()
        process.wait()
