"""The supervisor of the processes under test: what ends is started again, what sleeps wakes up, nothing is left."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from tests.chaos.fleet import Fleet
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child
from tests.support.waiting import holds_within

pytestmark = pytest.mark.deep

IDLE = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); print('up', flush=True); [time.sleep(0.1) for _ in range(6000)]"


@asynccontextmanager
async def supervised(tmp_path, script=IDLE):
    """A fleet with one worker, which is up."""
    fleet = Fleet(tmp_path)

    def start(member):
        return Child([sys.executable, "-c", script], tmp_path / f"{member.name}-{member.spawned}.log", os.environ)

    member = fleet.add("worker", "worker-1", start)
    task = asyncio.create_task(fleet.supervise())
    try:
        if script == IDLE:
            assert await holds_within(lambda: "up" in member.child.output(), HAPPEN_S)
        yield fleet, member
    finally:
        task.cancel()
        fleet.kill_all()
        assert not member.alive


async def test_a_killed_member_is_started_again_and_not_counted_as_a_failure(tmp_path):
    async with supervised(tmp_path) as (_, member):
        first = member.child.pid
        assert member.order(signal.SIGKILL)
        assert await holds_within(lambda: member.alive and member.child.pid != first, HAPPEN_S)
        assert member.spawned == 2
        assert member.ended_by_itself == []


async def test_a_member_that_exits_is_started_again_and_its_exit_code_is_noted(tmp_path):
    async with supervised(tmp_path, "raise SystemExit(70)") as (_, member):
        assert await holds_within(lambda: member.spawned >= 3, HAPPEN_S)
        assert member.ended_by_itself[:2] == [70, 70]


async def test_a_member_that_sleeps_is_stopped_and_wakes_up_as_the_same_process(tmp_path):
    async with supervised(tmp_path) as (fleet, member):
        sleeping = asyncio.create_task(fleet.paused(member, 0.5))
        assert await holds_within(lambda: state_of(member.child.pid) == "T", HAPPEN_S)
        assert await sleeping
        assert await holds_within(lambda: state_of(member.child.pid) in {"S", "R"}, HAPPEN_S)
        ((name, since, end),) = fleet.pauses
        assert name == "worker-1-1"
        assert end - since >= 0.5
        assert member.spawned == 1


async def test_a_member_that_is_killed_in_its_sleep_does_not_wake_up(tmp_path):
    async with supervised(tmp_path) as (fleet, member):
        sleeping = asyncio.create_task(fleet.paused(member, 1.0))
        assert await holds_within(lambda: state_of(member.child.pid) == "T", HAPPEN_S)
        member.order(signal.SIGKILL)
        assert not await sleeping


async def test_a_retired_member_gets_its_time_to_end_and_is_not_started_again(tmp_path):
    async with supervised(tmp_path) as (fleet, member):
        assert await fleet.retire(member) == 3
        await asyncio.sleep(1)
        assert not member.alive
        assert member.spawned == 1
        assert fleet.of("worker") == []
        assert await fleet.retire(member) is None


async def test_a_sleeping_member_can_be_retired(tmp_path):
    async with supervised(tmp_path) as (fleet, member):
        member.order(signal.SIGSTOP)
        assert await fleet.retire(member) == 3


def state_of(pid):
    """The state that the kernel reports: R running, S sleeping, T stopped."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a file of the kernel
        return stat.read().rpartition(")")[2].split()[0]
