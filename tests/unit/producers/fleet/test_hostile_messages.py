"""Messages that are well formed and meant to do harm: each is counted, or a dead letter, and costs little."""

from __future__ import annotations

import pytest

from switchgear.fleet.standing import MARK, is_circuit
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.headers import REKEYED, RESENT
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import COMMANDS, START_MS, World, event

ELSEWHERE = (owner_partition("search", 4) + 1) % 4
HOUR = 3_600_000


@pytest.mark.parametrize("topic", ["t.executions", COMMANDS])
def test_an_origin_without_a_value_is_a_dead_letter(topic):
    world = World()
    value = event() if topic == "t.executions" else Command(tool_name="search", verb="auto", actor="a").to_bytes()
    world.append(value, headers=[(REKEYED, None)], topic=topic)
    world.run_all()
    assert "must be partition:offset" in world.dead[0].reason


@pytest.mark.parametrize("timestamp", [-1, -(2**63), 2**62, START_MS * 1000])
@pytest.mark.parametrize("topic", ["t.executions", COMMANDS])
def test_a_time_that_no_broker_has_is_a_dead_letter_and_the_circuits_clock_stays(topic, timestamp):
    world = World()
    world.say()
    value = event() if topic == "t.executions" else Command(tool_name="search", verb="force_open", actor="a").to_bytes()
    world.append(value, topic=topic).timestamp = timestamp
    world.run_all()
    assert "LogAppendTime" in world.dead[0].reason
    assert (world.row().clock, world.row().total_calls) == (START_MS / 1000, 1)


def test_a_copy_for_the_tools_own_partition_leaves_a_strangers_large_headers_behind():
    world = World()
    headers = [("x", bytes(3_000_000)), (RESENT, bytes(1_000_000)), ("y", b"")]
    world.append(event(), partition=ELSEWHERE, headers=headers)
    world.append(event(), partition=ELSEWHERE, headers=[("traceparent", b"00-1"), *[("x" * 10, b"y")] * 3, ("z", None)])
    world.run_all()
    first, second = world.log["t.executions", owner_partition("search", 4)]
    assert first.headers == [(RESENT, b"1"), (REKEYED, b"%d:0" % ELSEWHERE)]
    assert second.headers == [
        ("traceparent", b"00-1"), *[("x" * 10, b"y")] * 3, ("z", None), (REKEYED, b"%d:1" % ELSEWHERE),
    ]  # fmt: skip
    assert world.row().total_calls == 2


def test_a_user_with_a_very_long_name_is_counted_in_the_tools_own_circuit():
    world = World()
    world.policies.policy = BreakerPolicy(consecutive_failures=3, scope="user")
    world.say(user_id="u" * 256)
    world.say(user_id="u" * 900_000)
    world.run_all()
    assert sorted(map(len, world.rows)) == [len("search"), len("search|user=") + 256]
    assert world.row().total_calls == 1


def test_a_lease_takes_less_than_a_thousand_bytes_however_long_the_name_of_the_process_so_that_a_thousand_fit():
    world = World()
    world.policies.policy = BreakerPolicy(
        consecutive_failures=1, minimum_reporters=1, wait_duration_in_open_state_s=1,
        permitted_number_of_calls_in_half_open_state=1000,
    )  # fmt: skip
    world.say("error", emitter_id="\x00" * 100_000)
    for number in range(200):
        world.say("rejected", seconds=5, probe_requested=True, emitter_id=f"{number:04d}" + "\x00" * 2_000)
    world.run_all()
    assert len(world.records()[-1].leases) == 200
    assert max(map(len, world.circuits)) < 200 * 1_000
    assert len(world.rows[b"search"]) < 200 * 3_000


def test_globs_whose_values_are_together_too_large_for_a_row_are_refused():
    world = World()
    for number in range(30):
        fallback = [f"{'f' * 250}{each:05d}" for each in range(230)]
        policy = BreakerPolicy(fallback=fallback)
        world.append(
            Command(tool_name=f"mcp:{number}:*", verb="set_policy", actor="a", policy=policy).to_bytes(),
            topic=COMMANDS, partition=0,
        )  # fmt: skip
    world.run_all()
    assert len(world.dead) in range(10, 16)
    assert "more than 1024 KiB" in world.dead[-1].reason
    assert len(world.rows[b"\xff0"]) < 1_200_000


@pytest.mark.parametrize("name", ["\x00mark", "\x00", "\x7f\x00mark", "mark"])
def test_a_tool_may_have_any_name_and_none_is_a_mark_of_ours(name):
    assert is_circuit(name.encode())
    assert name.encode() != MARK
    assert not is_circuit(MARK)
    with pytest.raises(UnicodeDecodeError):
        MARK.decode()
