"""Reports of overdue calls in the fold, and the limit that it learns and publishes."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from switchgear.fleet.durations import ENOUGH, bucket_of, upper_ms
from switchgear.fleet.registry import WEEK_S, Limits
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.enums import MOST_MS
from tests.support.fleet import COMMANDS, OnePolicy, World, at
from tests.support.table import table

SLOW = {"slow_call_duration_threshold_ms": 200, "slow_call_rate_threshold": 0.5}
TWENTY = OnePolicy(BreakerPolicy(**SLOW, minimum_number_of_calls=20))
NEVER_JUDGED = OnePolicy(BreakerPolicy(**SLOW, minimum_number_of_calls=1000))
NO_RULE = OnePolicy(BreakerPolicy(failure_count=100))


def say_late(world, seconds=0.2, ran_ms=200.0, **fields):
    world.say("overdue", seconds=seconds, execution_time_ms=ran_ms, generation=0, **fields)


def counts(world, circuit_id="search"):
    live = world.fold.registry.find(circuit_id)
    found = live.breaker.counts(live.row.clock)
    return found.calls, found.failed, found.slow


# -- reports ----------------------------------------------------------------------------------------------------------


def test_twenty_reports_open_the_circuit_before_any_call_has_ended():
    world = World(policies=TWENTY)
    for number in range(20):
        say_late(world, emitter_id=f"p{number}")
    world.run_all()
    record = world.records()[-1]
    assert (record.state, record.cause.rule, record.cause.sample) == ("open", "slow_call_rate", 20)
    assert (record.counts.slow, record.counts.total_calls, record.counts.total_failed) == (20, 0, 0)


def test_the_end_of_a_reported_call_is_a_call_of_the_totals_and_none_of_the_window():
    world = World(policies=NEVER_JUDGED)
    say_late(world)
    world.say("success", seconds=3, execution_time_ms=3_000, overdue_ms=200, generation=0)
    world.run_all()
    assert counts(world) == (1, 0, 1)
    assert (world.row().total_calls, world.row().total_ignored) == (1, 0)


def test_the_failed_end_of_a_reported_call_is_one_failed_and_slow_call():
    world = World(policies=NEVER_JUDGED)
    say_late(world)
    world.say("timeout", seconds=3, execution_time_ms=3_000, overdue_ms=200, generation=0)
    world.run_all()
    assert counts(world) == (1, 1, 1)
    assert (world.row().total_calls, world.row().total_failed) == (1, 1)


def test_a_reported_call_of_a_family_counts_once_although_others_of_its_tools_succeed_in_a_run():
    policies = OnePolicy(NO_RULE.policy, BreakerPolicy(**SLOW, minimum_number_of_calls=1000))
    world = World(policies=policies)
    tool = "mcp:maps:route"
    for _ in range(5):
        world.say(tool_name=tool, seconds=1, emitter_id="a")
    world.say("overdue", tool_name=tool, seconds=1, execution_time_ms=200, emitter_id="a")
    for _ in range(5):
        world.say(tool_name=tool, seconds=1, emitter_id="a")
    world.say(tool_name=tool, seconds=1, execution_time_ms=150, overdue_ms=200, emitter_id="a")
    world.run_all()
    assert counts(world, "mcp:maps|family") == (11, 0, 1)


def test_a_report_that_arrives_too_late_is_not_counted():
    world = World(policies=NEVER_JUDGED, late_after_s=300)
    say_late(world, seconds=301, recorded_at=at(0))
    world.run_all()
    assert counts(world) == (0, 0, 0)
    assert world.row().late == 1


def test_a_report_about_an_older_generation_is_dropped():
    world = World(policies=OnePolicy(BreakerPolicy(**SLOW, consecutive_failures=1, wait_duration_in_open_state_s=10)))
    world.say("error", generation=0)
    say_late(world, seconds=1)
    world.run_all()
    assert world.records()[-1].state == "open"
    assert counts(world) == (1, 1, 0)


@table(
    ("fields", "expected"),
    [
        ({"execution_time_ms": MOST_MS}, (10, 0, 10)),
        ({"execution_time_ms": 1e-320}, (0, 0, 0)),
        ({"execution_time_ms": 0.0}, (0, 0, 0)),
        ({}, (0, 0, 0)),
        ({"execution_time_ms": 200, "overdue_ms": MOST_MS}, (10, 0, 10)),
        ({"execution_time_ms": 200, "generation": 10**9}, (10, 0, 10)),
        ({"execution_time_ms": 200, "lease_id": "1.1"}, (10, 0, 10)),
    ],
)
def test_impossible_reports_change_no_more_than_possible_ones(fields, expected):
    world = World(policies=NEVER_JUDGED)
    for _ in range(10):
        world.say("overdue", seconds=1, **fields)
    world.run_all()
    assert counts(world) == expected
    assert world.dead == []
    world.start()
    assert counts(world) == expected


@table(
    ("fields", "expected"),
    [
        ({"execution_time_ms": 5, "overdue_ms": MOST_MS}, 0),
        ({"execution_time_ms": MOST_MS, "overdue_ms": MOST_MS}, 0),
        ({"execution_time_ms": 5, "overdue_ms": 199.9}, 10),
    ],
)
def test_ends_that_name_a_report_which_was_never_sent_add_no_call(fields, expected):
    world = World(policies=NEVER_JUDGED)
    for _ in range(10):
        world.say("success", seconds=1, **fields)
    world.run_all()
    assert counts(world)[0] == expected
    assert world.row().total_calls == 10


@pytest.mark.slow
def test_ten_thousand_reports_about_one_call_leave_a_row_of_the_same_size():
    world = World(policies=OnePolicy(BreakerPolicy(**SLOW, minimum_number_of_calls=1_000_000)))
    say_late(world)
    world.run_all()
    size = len(world.rows[b"search"])
    for _ in range(10_000):
        say_late(world)
    world.run_all()
    assert len(world.rows[b"search"]) <= size + 64


# -- the limit --------------------------------------------------------------------------------------------------------


def limits(world, circuit_id="search"):
    return [record.overdue_after_ms for record in world.records(circuit_id)]


def test_the_threshold_of_the_policy_is_published_with_the_first_call():
    world = World(policies=NEVER_JUDGED)
    for second in range(200):
        world.say(seconds=second)
    world.run_all()
    assert limits(world) == [200]
    assert world.records()[0].state == "closed"


def test_without_a_rule_for_slow_calls_a_quick_tool_has_no_record():
    world = World(policies=NO_RULE)
    for second in range(300):
        world.say(seconds=second, execution_time_ms=1_300)
    world.run_all()
    assert world.records() == []


def test_the_limit_that_the_fleet_learns_is_three_times_the_p99_and_at_least_five_seconds():
    world = World(policies=NO_RULE)
    for second in range(ENOUGH + 70):
        world.say(seconds=second, execution_time_ms=4_000)
    world.run_all()
    assert limits(world) == [3 * upper_ms(bucket_of(4_000))]
    assert world.row().overdue_after_ms == limits(world)[0]


def test_with_a_rate_of_slow_calls_alone_calls_that_take_three_times_the_p99_open_the_circuit():
    world = World(policies=OnePolicy(BreakerPolicy(slow_call_rate_threshold=0.5, minimum_number_of_calls=20)))
    for second in range(ENOUGH + 70):
        world.say(seconds=second, execution_time_ms=4_000, generation=0)
    world.run_all()
    learned = limits(world)[-1]
    assert limits(world) == [5_000, 3 * upper_ms(bucket_of(4_000))]
    for number in range(200):
        say_late(world, seconds=300 + number / 10, ran_ms=learned)
    world.run_all()
    assert world.records()[-1].state == "open"
    assert world.records()[-1].cause.slow_call_duration_threshold_ms == 5_000


def test_only_successes_say_how_long_calls_take():
    world = World(policies=NO_RULE)
    for second in range(ENOUGH + 70):
        world.say("error", seconds=second, execution_time_ms=60_000, error_class="tool")
        world.say("success", seconds=second, execution_time_ms=60_000, error_class="policy")
        world.say("overdue", seconds=second, execution_time_ms=60_000)
        world.say("cancelled", seconds=second, execution_time_ms=60_000)
        world.say("success", seconds=second, execution_time_ms=100)
    world.run_all()
    assert limits(world) == []


def test_a_limit_that_wavers_is_published_once_a_minute_and_by_two_buckets_only():
    world, chance = World(policies=NO_RULE), random.Random(36)
    for second in range(1_200):
        longest = 4_000 if second < 600 else 40_000
        world.say(seconds=second, execution_time_ms=chance.uniform(longest / 2, longest))
    world.run_all()
    found = limits(world)
    assert 2 <= len(found) <= 10
    assert found[0] <= 3 * upper_ms(bucket_of(4_000))
    assert found[-1] >= 3 * 30_000
    assert all(later / earlier >= 1.4 for earlier, later in pairwise(found))


def test_a_replay_learns_the_same_limit_to_the_byte():
    whole, cut = World(policies=NO_RULE), World(policies=NO_RULE)
    for world in (whole, cut):
        chance = random.Random(7)
        for second in range(400):
            world.say(seconds=second, execution_time_ms=chance.lognormvariate(8, 1), emitter_id="a")
            world.say(seconds=second, tool_name="mcp:maps:route", execution_time_ms=chance.lognormvariate(9, 1))
    whole.run_all()
    crashes, number = ["before_rows", "during_rows", "after_rows", "after_outputs", None], 0
    while cut.run(batch=37, crash=crashes[number % 5]):
        number += 1
    assert cut.rows == whole.rows
    assert limits(whole)[-1] is not None


def test_users_learn_one_limit_for_their_tool_and_their_circuits_publish_nothing():
    world = World(policies=OnePolicy(BreakerPolicy(**SLOW, minimum_number_of_calls=1000, scope="user")))
    for second in range(200):
        world.say(seconds=second, user_id=f"u{second % 5}")
    world.run_all()
    assert limits(world) == [200]
    assert limits(world, "search|user=u1") == []


def test_a_family_publishes_its_own_threshold():
    world = World(policies=OnePolicy(NO_RULE.policy, BreakerPolicy(**SLOW)))
    world.say(tool_name="mcp:maps:route")
    world.run_all()
    assert limits(world, "mcp:maps|family") == [200]


def test_another_threshold_is_published_with_the_policy():
    world = World(policies=NEVER_JUDGED)
    world.say()
    world.run_all()
    policy = BreakerPolicy.model_validate({**SLOW, "slow_call_duration_threshold_ms": 210})
    command = Command(tool_name="search", verb="set_policy", actor="ada", policy=policy)
    world.append(command.to_bytes(), topic=COMMANDS)
    world.run_all()
    assert limits(world) == [200, 210]


def test_an_open_circuit_keeps_its_limit_in_every_record():
    world = World(policies=OnePolicy(BreakerPolicy(**SLOW, consecutive_failures=3)))
    for second in range(3):
        world.say("error", seconds=second)
    world.run_all()
    assert limits(world) == [200, 200]
    assert world.records()[-1].state == "open"


@pytest.mark.parametrize("ms", [MOST_MS, 0.0, 1e-320])
def test_impossible_durations_leave_a_limit_that_readers_accept(ms):
    world = World(policies=NO_RULE)
    for second in range(ENOUGH + 70):
        world.say(seconds=second, execution_time_ms=ms)
    world.run_all()
    assert world.dead == []
    assert all(math.isfinite(limit) for limit in limits(world))
    world.start()


def test_a_tool_whose_record_says_only_its_limit_makes_room_and_comes_back_above_its_version():
    world = World(partitions=1, policies=NEVER_JUDGED, limits=Limits(tools=2))
    world.say(tool_name="a")
    world.say(tool_name="b")
    world.run_all()
    world.say(tool_name="c", seconds=WEEK_S + 1)
    world.run_all()
    assert world.dead == []
    assert world.counted.retired >= 1
    retired = next(name for name in ("a", "b") if name.encode() not in world.rows)
    version = world.records(retired)[-1].version
    world.say(tool_name=retired, seconds=2 * WEEK_S + 2)
    world.run_all()
    assert world.records(retired)[-1].version > version
