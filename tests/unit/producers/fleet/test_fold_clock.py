"""A broker's clock may be ahead for a while: the times of the circuits are bounded, and go back with it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import BreakerPolicy, Command
from tests.support.fleet import COMMANDS, COUNTING, START_MS, OnePolicy, World, at

HOUR = 3600
SESSIONS = COUNTING.model_copy(update={"scope": "session"})
SERVER = "mcp:github"
TOOLS = [f"{SERVER}:search", f"{SERVER}:merge"]
OF_FAMILIES = BreakerPolicy(
    consecutive_failures=3,
    minimum_tools=2,
    wait_duration_in_open_state_s=10,
    counted_error_classes=frozenset({"transport", "timeout"}),
)


def time_of(world: World, circuit_id: str = "search") -> float:
    """The circuit's time, in seconds since the log began."""
    return world.row(circuit_id).clock - START_MS / 1000


def said_at(world: World, seconds: float, status: str = "success", *, recorded: float | None = None, **fields) -> None:
    """A call ends, by its caller's clock at ``recorded`` and by the broker's at ``seconds``."""
    world.say(status, seconds=seconds, **({} if recorded is None else {"recorded_at": at(recorded)}), **fields)


def fail(world: World, seconds: float, **fields) -> None:
    for _ in range(3):
        said_at(world, seconds, "error", **fields)


def command(world: World, verb: str, *, seconds: float, until: float | None = None) -> None:
    world.run_all()
    moment = None if until is None else datetime.fromtimestamp(START_MS / 1000 + until, UTC)
    made = Command.from_dict({"tool_name": "search", "verb": verb, "actor": "ada", "until": moment})
    world.append(made.to_bytes(), topic=COMMANDS, seconds=seconds)
    world.run_all()


@pytest.mark.parametrize("policy", [COUNTING, SESSIONS])
def test_one_record_from_an_hour_ahead_moves_no_circuit(policy):
    world = World(policies=OnePolicy(policy))
    said_at(world, 1, recorded=1, session_id="s")
    said_at(world, HOUR + 2, recorded=2, session_id="s")
    for _ in range(3):
        said_at(world, 3, "error", recorded=3, session_id="s")
    world.run_all()
    circuit_id = "search" if policy is COUNTING else "search|session=s"
    assert (time_of(world), time_of(world, circuit_id), world.counted.late) == (3, 3, 1)
    (opened,) = world.records(circuit_id)
    assert (opened.changed_at.isoformat(), opened.open_until.isoformat()) == (at(3), at(13))


def test_one_record_from_an_hour_ahead_moves_no_circuit_of_a_family():
    world = World(policies=OnePolicy(COUNTING, OF_FAMILIES))
    said_at(world, 1, recorded=1, tool_name=TOOLS[0])
    said_at(world, HOUR, recorded=2, tool_name=TOOLS[0])
    for tool in (*TOOLS, *TOOLS):
        said_at(world, 3, "error", recorded=3, tool_name=tool, error_class="transport")
    world.run_all()
    assert time_of(world, f"{SERVER}|family") == 3
    (opened,) = world.records(f"{SERVER}|family")
    assert opened.open_until.isoformat() == at(13)


def test_a_new_circuit_that_begins_an_hour_ahead_has_the_right_time_with_the_next_event():
    world = World()
    said_at(world, HOUR, recorded=0)
    fail(world, 1, recorded=1)
    world.run_all()
    (opened,) = world.records()
    assert (time_of(world), opened.open_until.isoformat()) == (1, at(11))


def test_a_wait_that_began_an_hour_ahead_ends_soon_after_time_returned():
    world = World()
    fail(world, HOUR)
    said_at(world, 5, "rejected")
    world.run_all()
    opened, back = world.records()
    assert opened.open_until.isoformat() == at(HOUR + 10)
    assert (back.changed_at.isoformat(), back.open_until.isoformat()) == (at(5), at(15))
    assert (back.version, back.generation, back.state) == (2, 1, "open")
    assert back.cause is not None
    assert (back.cause.rule, back.cause.value) == ("clock_set_back", HOUR - 5)
    said_at(world, 15, "rejected", probe_requested=True, emitter_id="a")
    world.run_all()
    assert world.records()[-1].state == "half_open"


def test_a_wait_from_before_the_jump_is_kept():
    world = World()
    fail(world, 0)
    said_at(world, HOUR, "rejected")
    said_at(world, 5, "rejected")
    world.run_all()
    assert time_of(world) == 5
    assert len(world.records()) == 1
    said_at(world, 9, "rejected", probe_requested=True, emitter_id="a")
    said_at(world, 10, "rejected", probe_requested=True, emitter_id="b")
    world.run_all()
    (lease,) = world.records()[-1].leases
    assert lease.emitter_id == "b"


def test_a_broker_that_is_half_a_minute_behind_moves_nothing():
    world = World()
    fail(world, 100)
    said_at(world, 60, "rejected")
    world.run_all()
    assert (time_of(world), len(world.records())) == (100, 1)


def test_evidence_of_a_wrong_time_is_forgotten_and_counting_goes_on():
    world = World()
    for _ in range(2):
        said_at(world, HOUR, "error")
    said_at(world, 1, "error")
    world.run_all()
    assert world.circuits == []
    for _ in range(2):
        said_at(world, 2, "error")
    world.run_all()
    assert world.records()[-1].state == "open"
    assert world.row().total_failed == 5


def test_leases_of_a_half_open_stay_in_a_wrong_time_end_in_the_right_one():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"max_wait_duration_in_half_open_state_s": 30})))
    fail(world, 0)
    said_at(world, HOUR, "rejected", probe_requested=True, emitter_id="a")
    said_at(world, 20, "rejected")
    world.run_all()
    half_open, back = world.records()[-2:]
    assert (half_open.state, back.state, back.leases[0].lease_id) == (
        "half_open",
        "half_open",
        half_open.leases[0].lease_id,
    )
    assert back.leases[0].expires_at.isoformat() == at(50)
    said_at(world, 51, "rejected")
    world.run_all()
    assert world.records()[-1].state == "open"


def test_a_ramp_that_began_in_a_wrong_time_goes_on():
    ramp = COUNTING.model_copy(update={"recovery_ramp": (0.2, 0.5), "recovery_ramp_step_s": 10})
    world = World(policies=OnePolicy(ramp))
    fail(world, 0)
    said_at(world, HOUR, "rejected", probe_requested=True, emitter_id="a")
    world.run_all()
    half_open = world.records()[-1]
    said_at(world, HOUR, generation=half_open.generation, lease_id=half_open.leases[0].lease_id, emitter_id="a")
    said_at(world, 20)
    world.run_all()
    assert (world.records()[-1].state, world.records()[-1].admitted_share) == ("closed", 0.2)
    said_at(world, 29.9)
    said_at(world, 30)
    said_at(world, 40)
    world.run_all()
    assert [record.admitted_share for record in world.records()[-2:]] == [0.5, 1]


def test_what_an_operator_commanded_in_a_wrong_time_stays():
    world = World()
    said_at(world, 0)
    command(world, "force_open", seconds=HOUR, until=600)
    said_at(world, 5, "rejected")
    world.run_all()
    opened, back = world.records()
    assert (back.state, back.open_until, back.cause) == ("open", opened.open_until, opened.cause)
    assert back.changed_at.isoformat() == at(5)
    command(world, "close", seconds=6)
    assert world.records()[-1].state == "closed"


def test_a_command_after_a_jump_is_dated_by_the_circuits_time_until_the_next_call():
    world = World()
    said_at(world, HOUR)
    world.run_all()
    command(world, "force_open", seconds=5)
    assert world.records()[-1].changed_at.isoformat() == at(HOUR)
    said_at(world, 6, "rejected")
    world.run_all()
    assert (world.records()[-1].state, world.records()[-1].changed_at.isoformat()) == ("forced_open", at(6))


def test_an_hour_in_which_every_event_looks_late_ends_no_command_for_a_time():
    world = World(policies=OnePolicy(SESSIONS))
    command(world, "disable", seconds=0, until=600)
    said_at(world, HOUR, recorded=1, session_id="s")
    world.run_all()
    assert world.row().state == "disabled"
    said_at(world, 601, recorded=601, session_id="s")
    world.run_all()
    assert world.row().state == "closed"


def test_a_familys_outage_begins_no_later_than_time_returned():
    world = World(policies=OnePolicy(COUNTING, OF_FAMILIES))
    for tool in (*TOOLS, *TOOLS):
        said_at(world, HOUR, "error", tool_name=tool, error_class="transport")
    said_at(world, 5, "rejected", tool_name=TOOLS[0])
    world.run_all()
    row = world.row(f"{SERVER}|family")
    assert row.outage_at is not None
    assert row.outage_at <= row.clock == START_MS / 1000 + 5


jumps = st.lists(
    st.tuples(
        st.sampled_from(["search", *TOOLS]),
        st.sampled_from(["success", "error", "error", "rejected"]),
        st.floats(0, 8, allow_nan=False),
        st.sampled_from([0, 0, 0, HOUR, HOUR, -90]),
        st.booleans(),
    ),
    max_size=60,
)
cuts = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([None, None, "before_rows", "during_rows", "after_rows", "after_outputs"])),
    max_size=30,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("policy", [COUNTING, SESSIONS])
@given(made=jumps, plan=cuts)
def test_folding_a_log_with_jumps_in_any_cuts_gives_the_same_rows(policy, made, plan):
    calm, rough = (World(policies=OnePolicy(policy, OF_FAMILIES)) for _ in range(2))
    for world in (calm, rough):
        clock = 0.0
        for number, (tool, status, step, jump, timed) in enumerate(made):
            clock += step
            fields = {"recorded_at": at(clock)} if timed else {}
            world.say(
                status, tool_name=tool, seconds=HOUR + clock + jump, emitter_id=f"e{number % 2}", session_id="s",
                probe_requested=status == "rejected", error_class="transport" if status == "error" else None, **fields,
            )  # fmt: skip
    calm.run_all()
    for batch, crash in plan:
        rough.run(batch=batch, crash=crash)
    rough.run_all()
    assert rough.rows == calm.rows
