"""The owner of a tool's circuit learns its rate limit from the calls of all processes, and publishes it when it is news."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.fleet.rows import Row
from switchgear_schemas import FLEET_DEFAULT, BreakerPolicy, Circuit, Command
from switchgear_schemas.pacing import DEMAND_S
from tests.support.fleet import COMMANDS, START_MS, OnePolicy, World

START_S = START_MS // 1000
ENFORCE = FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_limit": "100/10s"})


def world(policy: BreakerPolicy = ENFORCE) -> World:
    return World(policies=OnePolicy(policy))


def limited(w: World, seconds: float, **fields: Any) -> None:
    w.say("error", error_class="rate_limited", seconds=seconds, **fields)


def newest(w: World) -> Circuit:
    return w.records()[-1]


def test_a_tool_without_a_429_costs_nothing():
    w = world(FLEET_DEFAULT)
    for number in range(100):
        w.say(seconds=number / 10)
    w.run_all()
    assert w.row().pacing is None
    assert w.records() == []


def test_learned_limits_are_published_with_the_number_of_processes():
    w = world(FLEET_DEFAULT.model_copy(update={"failure_rate_threshold": None, "cusum": None}))
    for number in range(600):
        seconds, process = number / 30, f"p{number % 7}"
        if number % 3:
            limited(w, seconds, emitter_id=process)
        else:
            w.say(seconds=seconds, emitter_id=process)
    w.run_all()
    found = newest(w)
    assert found.admitted_rate == pytest.approx(10, rel=0.1)
    assert found.active_processes == 7
    assert found.pace is not None
    assert found.pace.mode == "learn"
    assert found.state == "closed"


def test_the_first_call_of_a_tool_whose_limit_is_stated_publishes_it():
    w = world()
    w.say(emitter_id="p1")
    w.run_all()
    found = newest(w)
    assert (found.admitted_rate, found.active_processes) == (10, 1)
    assert found.pace is not None
    assert (found.pace.mode, found.pace.wait_s, found.pace.limits[0].period_s) == ("enforce", 5, 10)


def test_a_tool_whose_limit_is_to_be_learned_says_so_before_it_is_known():
    w = world(FLEET_DEFAULT.model_copy(update={"pace": "enforce"}))
    w.say()
    w.run_all()
    assert newest(w).pace is not None
    assert newest(w).admitted_rate is None
    assert len(w.records()) == 1


def test_records_come_once_a_second_at_most_and_only_with_news():
    w = world()
    for number in range(480):
        w.say(seconds=number / 40, emitter_id=f"p{number % 3}")
    w.run_all()
    seconds = [each.pace.limits[0].until.timestamp() - START_S for each in w.records()]
    # While the sum of five seconds grows; and then for a demand that moves from one process to another, which no sum shows.
    assert seconds == [0, 1, 2, 3, 4, 5, 10]
    for number in range(40):
        w.say("overdue", seconds=20 + number, execution_time_ms=9_000)
    w.run_all()
    assert len(w.records()) == len(seconds)


def test_what_processes_asked_for_is_summed_over_whole_seconds():
    w = world()
    for second in range(8):
        w.say(seconds=second + 0.1, metadata={"asked": 10}, emitter_id="p1")
        w.say(
            "rejected", seconds=second + 0.2, metadata={"refused_by": "pace", "refused": 4, "asked": 5}, emitter_id="p2"
        )
        w.say("rejected", seconds=second + 0.3, metadata={"refused_by": "fleet", "refused": 9}, emitter_id="p3")
    w.say(seconds=9.5)
    w.run_all()
    (limit,) = newest(w).pace.limits
    assert (limit.asked, limit.until.timestamp()) == (15 * (DEMAND_S - 1), START_S + 9)
    assert newest(w).active_processes == 2


@pytest.mark.parametrize("asked", [-1, True, "7", 2**80, 1.5, None])
def test_a_number_that_cannot_be_counts_as_one_call(asked):
    w = world()
    w.say(metadata={"asked": asked})
    w.say(seconds=1.5)
    w.run_all()
    (limit,) = newest(w).pace.limits
    assert limit.asked in (1, 1_000_000)


def test_429s_of_a_tool_whose_limit_is_kept_open_nothing():
    w = world()
    for number in range(200):
        limited(w, number / 10, emitter_id=f"p{number % 4}")
    w.run_all()
    assert newest(w).state == "closed"
    assert w.row().total_ignored == 200
    w = world(FLEET_DEFAULT)
    for number in range(200):
        limited(w, number / 10, emitter_id=f"p{number % 4}")
    w.run_all()
    assert newest(w).state == "open"


def test_users_of_a_tool_share_its_limit():
    w = world(ENFORCE.model_copy(update={"scope": "user"}))
    for number in range(50):
        w.say(seconds=number / 5, user_id=f"u{number % 5}", emitter_id=f"p{number % 2}")
    w.run_all()
    (limit,) = newest(w).pace.limits
    assert limit.asked == 25
    assert w.row("search|user=u1").pacing is None


def test_late_calls_say_nothing_about_the_pace():
    w = world()
    w.say(seconds=1, recorded_at="2027-01-15T07:00:00Z")
    w.run_all()
    assert w.row().pacing is None


def test_the_limit_goes_when_the_policy_no_longer_keeps_it():
    w = world()
    w.say()
    w.run_all()
    w.policies.policy = FLEET_DEFAULT.model_copy(update={"pace": "off"})
    w.start()
    assert newest(w).pace is None
    assert newest(w).admitted_rate is None
    w.say(seconds=2)
    w.run_all()
    assert len(w.records()) == 2


def test_a_command_can_have_the_limit_kept():
    w = world(FLEET_DEFAULT)
    w.say()
    w.run_all()
    given_policy = BreakerPolicy.model_validate({"pace": "enforce", "pace_limit": "5/s"})
    command = Command(actor="ada", tool_name="search", verb="set_policy", policy=given_policy)
    w.append(command.to_bytes(), seconds=1, topic=COMMANDS)
    w.run_all()
    w.say(seconds=2)
    w.run_all()
    assert newest(w).admitted_rate == 5
    assert newest(w).pace.mode == "enforce"


def test_an_hour_after_the_last_429_the_tool_is_as_any_other():
    w = world(FLEET_DEFAULT.model_copy(update={"failure_rate_threshold": None, "cusum": None}))
    for number in range(300):
        if number % 2:
            limited(w, number / 30)
        else:
            w.say(seconds=number / 30)
    w.run_all()
    assert newest(w).admitted_rate is not None
    w.say(seconds=3_700)
    w.run_all()
    assert w.row().pacing is None
    assert newest(w).pace is None


def test_a_row_of_an_older_worker_has_no_pacing():
    row = Row(circuit_id="search", tool_name="search")
    older = msgspec.msgpack.decode(row.encode()[9:])[:-2]
    data = row.encode()[:9] + msgspec.msgpack.encode(older)
    assert Row.decode(data).pacing is None
    assert Row.decode(data).paced is False


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.02, 0.4, 1.3, 12.0, 70.0, -0.4, -90.0]),
        st.sampled_from(
            [
                {"status": "success"},
                {"status": "success", "metadata": {"asked": 4}},
                {"status": "error", "error_class": "rate_limited"},
                {"status": "error", "error_class": "rate_limited", "retry_after_s": 7},
                {"status": "error", "error_class": "rate_limited", "retry_after_s": 300},
                {"status": "rejected", "metadata": {"refused_by": "pace", "asked": 9}},
                {"status": "error", "error_class": "server"},
            ]
        ),
    ),
    max_size=50,
)
POLICIES = st.sampled_from([ENFORCE, FLEET_DEFAULT, FLEET_DEFAULT.model_copy(update={"pace": "enforce"})])


@given(
    POLICIES,
    EVENTS,
    st.integers(1, 20),
    st.lists(st.sampled_from([None, "before_rows", "after_rows", "after_outputs"])),
)
def test_crashes_and_replays_decide_as_one_reading_does(policy, events, batch, crashes):
    plain, crashing = world(policy), world(policy)
    seconds = 1_000.0
    for number, (step, fields) in enumerate(events):
        seconds += step
        for w in (plain, crashing):
            w.say(**fields, seconds=seconds, emitter_id=f"p{number % 3}")
    plain.run_all(1)
    for crash in crashes:
        crashing.run(batch=batch, crash=crash)
    crashing.run_all(batch)
    assert crashing.rows == plain.rows
    whole = {each.version: each for each in plain.records()}
    left = {each.version: each for each in crashing.records()}  # of those that a crash lost, the last one comes again
    assert left.items() <= whole.items()
    assert max(left, default=0) == max(whole, default=0)
