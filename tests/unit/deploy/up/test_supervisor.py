"""The supervisor starts, watches, restarts and ends components; the clock is the test's."""

import asyncio
from pathlib import Path

import pytest

from switchgear_cli.up.supervisor import Phase, Supervisor
from switchgear_schemas.errors import SwitchgearError
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S


class Puppet:
    """A component whose process is a number: the test says when it dies and when it is ready."""

    address = ""
    log_file = Path("puppet.log")

    def __init__(self, name="puppet", *, ends_on_sigterm=True, cannot_start=""):
        self.name = name
        self.pid = None
        self.spawns = 0
        self.how = None
        self.ready = False
        self.signals = []
        self.ends_on_sigterm = ends_on_sigterm
        self.cannot_start = cannot_start

    def spawn(self):
        if self.cannot_start:
            raise SwitchgearError(self.cannot_start)
        self.spawns += 1
        self.pid, self.how, self.ready = 1000 + self.spawns, None, False

    def die(self, how="SIGKILL"):
        self.pid, self.how = None, how

    def ended(self):
        return self.how

    async def is_ready(self):
        return self.ready

    def tend(self):
        self.signals.append("tend")

    def terminate(self):
        self.signals.append("TERM")
        if self.ends_on_sigterm:
            self.die("SIGTERM")

    def kill(self):
        if self.pid is not None:
            self.signals.append("KILL")
            self.die()


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def phases():
    return []


@pytest.fixture
def supervisor(clock, phases):
    return Supervisor(clock=clock, notify=lambda supervised: phases.append(supervised.supervision.phase))


async def run_and_ready(supervisor, puppet):
    supervisor.start(puppet)
    puppet.ready = True
    await supervisor.step()


async def test_a_component_runs_once_it_is_ready(supervisor, phases):
    puppet = Puppet()
    supervisor.start(puppet)
    await supervisor.step()
    assert phases == [Phase.STARTING]
    puppet.ready = True
    await supervisor.step()
    assert phases == [Phase.STARTING, Phase.RUNNING]


async def test_a_dead_component_is_started_again_after_its_backoff(supervisor, clock, phases):
    puppet = Puppet()
    await run_and_ready(supervisor, puppet)
    puppet.die()
    await supervisor.step()
    assert supervisor.all[0].supervision.problem == "SIGKILL"
    await supervisor.step()
    assert puppet.spawns == 1
    clock.now += 0.5
    await supervisor.step()
    assert (puppet.spawns, supervisor.all[0].supervision.restarts) == (2, 1)
    assert phases == [Phase.STARTING, Phase.RUNNING, Phase.WAITING, Phase.STARTING]


async def test_one_components_death_leaves_the_others_alone(supervisor, clock):
    first, second = Puppet("first"), Puppet("second")
    await run_and_ready(supervisor, first)
    await run_and_ready(supervisor, second)
    first.die()
    clock.now += 10
    await supervisor.step()
    clock.now += 10
    await supervisor.step()
    assert (first.spawns, second.spawns) == (2, 1)


async def test_a_component_that_cannot_be_started_is_tried_again(supervisor, clock):
    puppet = Puppet(cannot_start="Port 9092 is in use.")
    supervisor.start(puppet)
    supervision = supervisor.all[0].supervision
    assert (supervision.phase, supervision.problem, supervision.streak) == (Phase.WAITING, "Port 9092 is in use.", 1)
    puppet.cannot_start = ""
    clock.now += 1
    await supervisor.step()
    assert puppet.spawns == 1


async def test_a_component_that_lets_a_question_wait_delays_neither_the_others_nor_its_own_readiness(supervisor):
    slow, quick = Puppet("slow"), Puppet("quick")
    answer = asyncio.Event()

    async def is_ready():
        return await answer.wait()

    slow.is_ready = is_ready
    for puppet in (slow, quick):
        supervisor.start(puppet)
    quick.ready = True
    await asyncio.wait_for(supervisor.step(), ANSWER_S)
    assert [each.supervision.phase for each in supervisor.all] == [Phase.STARTING, Phase.RUNNING]
    answer.set()
    await supervisor.step()
    assert supervisor.all[0].supervision.phase is Phase.RUNNING


async def test_an_answer_of_the_process_before_does_not_make_the_next_one_ready(supervisor, clock):
    puppet = Puppet("late")
    answer = asyncio.Event()

    async def is_ready():
        return puppet.spawns == 1 and await answer.wait()

    puppet.is_ready = is_ready
    supervisor.start(puppet)
    await supervisor.step()
    answer.set()
    puppet.die()
    await supervisor.step()
    clock.now += 1
    await supervisor.step()
    await supervisor.step()
    assert puppet.spawns == 2
    assert supervisor.all[0].supervision.phase is Phase.STARTING


async def test_waiting_for_readiness_ends_when_all_are_ready(supervisor):
    puppet = Puppet()
    supervisor.start(puppet)
    puppet.ready = True
    running = asyncio.create_task(supervisor.run())
    await asyncio.wait_for(supervisor.wait_ready(["puppet"], 1000), ANSWER_S)
    running.cancel()


async def test_a_component_that_never_gets_ready_is_named_with_its_log(supervisor, clock):
    supervisor.start(Puppet())
    clock.now += 11
    waiting = asyncio.create_task(supervisor.wait_ready(["puppet"], 0))
    with pytest.raises(SwitchgearError, match=r"The puppet was not ready within 0 s\. Its log: puppet\.log"):
        await asyncio.wait_for(waiting, ANSWER_S)


async def test_three_deaths_before_readiness_give_up_with_the_last_lines_of_the_log(supervisor, clock):
    puppet = Puppet()
    supervisor.start(puppet)
    for _ in range(3):
        puppet.die("code 1: the disk is full")
        await supervisor.step()
        clock.now += 20
        await supervisor.step()
    with pytest.raises(SwitchgearError, match=r"ended 3 times before it was ready \(code 1: the disk is full\)"):
        await asyncio.wait_for(supervisor.wait_ready(["puppet"], 1000), ANSWER_S)


async def test_stopping_asks_first_and_waits_for_the_end(supervisor, phases):
    puppet = Puppet()
    await run_and_ready(supervisor, puppet)
    await supervisor.stop(["puppet"], 5, asyncio.Event())
    assert puppet.signals == ["TERM"]
    assert phases[-1] is Phase.STOPPED


async def test_a_component_that_ignores_sigterm_is_killed_at_the_limit(supervisor, clock):
    puppet = Puppet(ends_on_sigterm=False)
    await run_and_ready(supervisor, puppet)
    stopping = asyncio.create_task(supervisor.stop(["puppet"], 5, asyncio.Event()))
    await asyncio.sleep(0.05)
    assert puppet.signals == ["TERM"]
    clock.now += 5
    await asyncio.wait_for(stopping, ANSWER_S)
    assert puppet.signals == ["TERM", "KILL"]


async def test_a_second_ctrl_c_kills_at_once(supervisor):
    puppet = Puppet(ends_on_sigterm=False)
    await run_and_ready(supervisor, puppet)
    hurry = asyncio.Event()
    hurry.set()
    await asyncio.wait_for(supervisor.stop(["puppet"], 1000, hurry), ANSWER_S)
    assert puppet.signals == ["TERM", "KILL"]


async def test_only_the_named_components_are_stopped(supervisor):
    first, second = Puppet("first"), Puppet("second")
    await run_and_ready(supervisor, first)
    await run_and_ready(supervisor, second)
    await supervisor.stop(["first"], 5, asyncio.Event())
    assert (first.signals, second.signals) == (["TERM"], [])


async def test_logs_are_tended_every_few_seconds(supervisor, clock):
    puppet = Puppet()
    await run_and_ready(supervisor, puppet)
    assert puppet.signals == []
    clock.now += 5
    await supervisor.step()
    await supervisor.step()
    assert puppet.signals == ["tend"]
