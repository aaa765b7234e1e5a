"""Well-formed messages that are meant to do harm: each is counted or a dead letter, and takes little time."""

from __future__ import annotations

import json

import pytest

from switchgear.fleet.rows import MARK, is_circuit
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.enums import MOST_TOKENS
from switchgear_schemas.headers import REKEYED, RESENT
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import COMMANDS, START_MS, World, event
from tests.support.table import table

ELSEWHERE = (owner_partition("search", 4) + 1) % 4
HOUR = 3_600_000


@pytest.mark.parametrize("topic", ["t.executions", COMMANDS])
def test_an_origin_without_a_value_is_a_dead_letter(topic):
    world = World()
    value = event() if topic == "t.executions" else Command(tool_name="search", verb="auto", actor="a").to_bytes()
    world.append(value, headers=[(REKEYED, None)], topic=topic)
    world.run_all()
    assert "must be partition:offset" in world.dead[0].reason


@table("timestamp", [-1, -(2**63), 2**62, START_MS * 1000])
@table("topic", ["t.executions", COMMANDS])
def test_a_time_that_no_broker_has_is_a_dead_letter_and_the_circuits_clock_stays(topic, timestamp):
    world = World()
    world.say()
    value = event() if topic == "t.executions" else Command(tool_name="search", verb="force_open", actor="a").to_bytes()
    world.append(value, topic=topic).timestamp = timestamp
    world.run_all()
    assert "LogAppendTime" in world.dead[0].reason
    assert (world.row().clock, world.row().total_calls) == (START_MS / 1000, 1)


def test_a_copy_for_the_tools_own_partition_has_no_headers_of_its_producer():
    world = World()
    headers = [("x", bytes(3_000_000)), (RESENT, bytes(1_000_000)), ("y", b"")]
    world.append(event(), partition=ELSEWHERE, headers=headers)
    world.append(event(), partition=ELSEWHERE, headers=[("traceparent", b"00-1")])
    world.run_all()
    first, second = world.log["t.executions", owner_partition("search", 4)]
    assert first.headers == [(REKEYED, b"%d:0" % ELSEWHERE), (RESENT, b"1")]
    assert second.headers == [(REKEYED, b"%d:1" % ELSEWHERE)]
    assert world.row().total_calls == 2


def test_a_user_with_a_very_long_name_is_counted_in_the_tools_own_circuit():
    world = World()
    world.policies.policy = BreakerPolicy(consecutive_failures=3, scope="user")
    world.say(user_id="u" * 256)
    world.say(user_id="u" * 900_000)
    world.run_all()
    assert sorted(map(len, world.rows)) == [len("search"), len("search|user=") + 256]
    assert world.row().total_calls == 1


@pytest.mark.slow
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


@pytest.mark.slow
def test_globs_whose_values_are_together_too_large_for_a_row_are_refused():
    world = World()
    for number in range(30):
        fallback = [f"{'ö' * 250}{each:05d}" for each in range(32)]
        policy = BreakerPolicy(fallback=fallback)
        world.append(
            Command(tool_name=f"mcp:{number}:*", verb="set_policy", actor="a", policy=policy).to_bytes(),
            topic=COMMANDS, partition=0,
        )  # fmt: skip
    world.run_all()
    assert len(world.dead) in range(5, 16)
    assert "more than 1024 KiB" in world.dead[-1].reason
    assert len(world.rows[b"\xff0"]) < 1_200_000


@pytest.mark.parametrize("name", ["\x00mark", "\x00", "\x7f\x00mark", "mark"])
def test_no_tool_name_is_mistaken_for_a_mark_in_the_changelog(name):
    assert is_circuit(name.encode())
    assert name.encode() != MARK
    assert not is_circuit(MARK)
    with pytest.raises(UnicodeDecodeError):
        MARK.decode()


IMPOSSIBLE = [
    {"sliding_window_size": 1e-12},
    {"sliding_window_size": 5e-324},
    {"sliding_window_size": True},
    {"sliding_window_size": "60"},
    {"sliding_window_type": "count", "sliding_window_size": 1e300},
    {"wait_duration_in_open_state_s": 1e300},
    {"max_wait_duration_in_open_state_s": 1e308, "wait_duration_in_open_state_s": 1e308},
    {"max_wait_duration_in_half_open_state_s": 1e300},
    {"backoff_multiplier": 1e308},
    {"failure_count": 10**400},
    {"consecutive_failures": -1},
    {"minimum_number_of_calls": 2**80},
    {"wasted_tokens": 2**64},
    {"slow_call_rate_threshold": 0.5, "slow_call_duration_threshold_ms": 1e308},
    {"cusum": {"tolerable_failure_rate": 5e-324, "broken_failure_rate": 1e-323, "calls_between_false_opens": 1e308}},
    {"fallback": ["x" * 40_000]},
]


@table("values", IMPOSSIBLE, ids="-".join)
@table("name", ["search", "sea*"])
def test_an_impossible_policy_is_a_dead_letter_or_changes_nothing_and_the_tool_goes_on(values, name):
    world = World()
    world.say("error")
    command = {"tool_name": name, "verb": "set_policy", "actor": "a", "policy": values}
    world.append(json.dumps(command).encode(), topic=COMMANDS)
    world.say("error", input_tokens=MOST_TOKENS, seconds=1)
    world.say("error", retry_after_s=1e300, seconds=2)
    world.run_all()
    world.start()
    world.say("rejected", probe_requested=True, emitter_id="e", seconds=4_000)
    world.run_all()
    assert world.row().total_calls == 3
    assert len(world.dead) == 1


@pytest.mark.parametrize("not_finite", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_policy_with_a_number_that_is_not_finite_is_a_dead_letter(not_finite):
    world = World()
    world.append(
        f'{{"tool_name":"search","verb":"set_policy","actor":"a","policy":{{"sliding_window_size":{not_finite}}}}}'.encode(),
        topic=COMMANDS,
    )
    world.say()
    world.run_all()
    assert (len(world.dead), world.row().total_calls) == (1, 1)


@pytest.mark.parametrize(
    "layer", [b'{"sliding_window_size":1e-12}', b'{"hue":7}', b'{"wait_duration_in_open_state_s":1e300}']
)
def test_an_impossible_policy_that_an_older_worker_took_in_gives_way_to_the_files(layer):
    world = World()
    world.say()
    world.run_all()
    row = world.row()
    row.policy = layer
    world.rows[b"search"] = row.encode()
    world.start()
    for _ in range(3):
        world.say("error")
    world.run_all()
    assert world.records()[-1].state == "open"


@table("fields", [
    {"until": "0001-01-01T00:00:00Z"}, {"until": "9999-12-31T23:59:59Z"}, {"until": "9999-12-31T23:59:59-23:59"},
    {"actor": "a" * 60_000}, {"reason": "r" * 60_000}, {"actor": ""}, {"circuit_id": "x" * 1_000},
])  # fmt: skip
def test_a_command_with_unusable_texts_or_times_is_a_dead_letter(fields):
    world = World()
    world.say()
    command = {"tool_name": "search", "verb": "force_open", "actor": "a"} | fields
    world.append(json.dumps(command).encode(), topic=COMMANDS)
    world.say()
    world.run_all()
    assert (len(world.dead), world.row().total_calls) == (1, 2)
    assert world.dead[0].field in {*fields, ""}


@pytest.mark.slow
def test_ten_thousand_bad_messages_take_seconds():
    world = World()
    for number in range(10_000):
        world.append(b'{"tool_name":"search","status":"error","input_tokens":"%d"}' % number)
    world.say()
    world.run_all()
    assert (len(world.dead), world.row().total_calls) == (10_000, 1)
