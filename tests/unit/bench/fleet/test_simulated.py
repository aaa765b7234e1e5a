"""The fleet in virtual time, with the contenders that need no other library."""

from __future__ import annotations

import math

import pytest

from tests.bench.fleet.outages import OUTAGES, ToolError
from tests.bench.fleet.simulated import trial
from tests.bench.fleet.virtual_redis import LATENCY_S, VirtualRedis
from tests.bench.fleet.world import World

BY_NAME = {outage.name: outage for outage in OUTAGES}


@pytest.mark.parametrize("name", ["down", "hung", "rate-limited"])
def test_the_whole_fleet_refuses_and_one_process_probes(name):
    found = trial("switchgear", BY_NAME[name], 30, 1)
    assert math.isfinite(found["until_refused_s"])
    assert found["probes"] == 1


def test_all_processes_go_on_at_once_after_a_cooldown():
    assert trial("litellm_cooldown", BY_NAME["down"], 30, 1)["probes"] == 30


@pytest.mark.slow
def test_one_bad_process_costs_the_others_nothing_with_evidence_of_all_and_much_with_a_shared_cooldown():
    ours, theirs = (trial(name, BY_NAME["one bad process"], 30, 1) for name in ("switchgear", "litellm_cooldown"))
    assert ours["good_refused"] < 30 < theirs["good_refused"]


@pytest.mark.slow
def test_two_trials_of_a_seed_are_equal():
    first, second = (trial("switchgear", BY_NAME["30 % errors"], 20, 3) for _ in range(2))
    assert first == second


def test_processes_wait_in_virtual_time_in_their_order():
    world, seen = World("order"), []

    def process(name, seconds):
        for _ in range(2):
            world.sleep(seconds)
            seen.append((name, world.now()))

    world.spawn(lambda: process("a", 2.0))
    world.spawn(lambda: process("b", 3.0))
    world.agenda.run(10.0)
    assert seen == [("a", 2.0), ("b", 3.0), ("a", 4.0), ("b", 6.0)]


def test_an_error_of_a_process_ends_the_trial():
    world = World("error")

    def fail():
        raise ToolError(500)

    world.spawn(fail)
    with pytest.raises(ToolError):
        world.agenda.run(1.0)


def test_a_waiting_process_is_woken_once_or_goes_on_at_its_limit():
    world, seen, wakers = World("wait"), [], []

    def process(seconds):
        world.wait(seconds, wakers.append)
        seen.append(world.now())

    world.spawn(lambda: process(5.0))
    world.spawn(lambda: process(2.0))
    world.agenda.run(1.0)
    wakers[0]()
    wakers[0]()
    world.agenda.run(10.0)
    assert seen == [1.0, 2.0]


def test_other_processes_run_while_a_command_of_redis_is_on_its_way():
    world, seen = World("redis"), []

    def read_and_write(name):
        client = VirtualRedis(world)
        before = int(client.get("count") or 0)
        client.set("count", before + 1)
        seen.append((name, before, round(world.now() / LATENCY_S)))

    world.spawn(lambda: read_and_write("a"))
    world.spawn(lambda: read_and_write("b"))
    world.agenda.run(1.0)
    assert seen == [("a", 0, 2), ("b", 0, 2)]


def test_keys_of_redis_expire():
    world, seen = World("expiry"), []

    def process():
        client = VirtualRedis(world)
        client.set("key", "value", px=1000)
        seen.append(client.get("key"))
        world.sleep(1.0)
        seen.append(client.get("key"))

    world.spawn(process)
    world.agenda.run(5.0)
    assert seen == [b"value", None]
