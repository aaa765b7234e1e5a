"""Successes that are counted together leave what one by one leaves: the same records, rows and snapshots, to the byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker.evidence import Evidence
from switchgear.fleet import Changes, FleetFold, Message
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.headers import REKEYED, RESENT
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT, Cusum
from tests.support.event_by_event import EventByEvent
from tests.support.fleet import COMMANDS, Crash, OnePolicy, World, at

pytestmark = pytest.mark.slow

SERVER = "mcp:github"
TOOLS = (f"{SERVER}:search", f"{SERVER}:merge", "search", "mcp:slack:post", "a|family")
SLOW = {"slow_call_rate_threshold": 0.3, "slow_call_duration_threshold_ms": 200}
POLICIES = st.sampled_from(
    [
        FLEET_DEFAULT,
        FLEET_DEFAULT.model_copy(update={"minimum_number_of_calls": 6, "minimum_reporters": 3}),
        BreakerPolicy(cusum=Cusum(), minimum_reporters=3, sliding_window_size=6),
        BreakerPolicy(cusum=Cusum(tolerable_failure_rate=0.3, broken_failure_rate=0.8), consecutive_failures=4),
        BreakerPolicy(failure_rate_threshold=0.4, minimum_number_of_calls=4, sliding_window_size=10, **SLOW),
        BreakerPolicy(failure_count=3, wasted_tokens=500, minimum_reporters=2, slow_call_rate_threshold=0.2),
        BreakerPolicy(failure_rate_threshold=0.3, minimum_number_of_calls=3, sliding_window_panes=1),
        BreakerPolicy(failure_count=2, sliding_window_type="count", sliding_window_size=6, minimum_reporters=2),
        BreakerPolicy(consecutive_failures=2, recovery_ramp=(0.3, 0.6), wait_duration_in_open_state_s=5),
        BreakerPolicy(failure_count=3, sliding_window_size=3_600),
        FLEET_DEFAULT.model_copy(update={"scope": "user"}),
        FLEET_DEFAULT.model_copy(update={"target": "url.host"}),
        FLEET_DEFAULT.model_copy(update={"mode": "metrics_only"}),
        FLEET_DEFAULT.model_copy(update={"pace": "enforce"}),
        FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_limit": "20/min"}),
        FLEET_DEFAULT.model_copy(update={"pace_limit": "5/s", "scope": "user"}),
        FLEET_DEFAULT.model_copy(update={"pace": "off"}),
    ]
)
OF_FAMILIES = st.sampled_from(
    [
        FAMILY_DEFAULT,
        BreakerPolicy(failure_count=3, minimum_tools=2, minimum_reporters=2, sliding_window_size=6),
        BreakerPolicy(failure_rate_threshold=0.2, minimum_number_of_calls=5, minimum_tools=2, **SLOW),
        BreakerPolicy(cusum=Cusum(), minimum_tools=3, counted_error_classes=frozenset({"transport", "server"})),
        BreakerPolicy(consecutive_failures=3, sliding_window_panes=1),
    ]
)
EMITTERS = st.integers(0, 3).map(lambda number: {"emitter_id": f"p{number}"})
SUCCESS = st.builds(
    dict.__or__,
    EMITTERS,
    st.fixed_dictionaries(
        {"execution_time_ms": st.sampled_from([None, 0, 0.5, 40, 199.9, 201, 6_000])},
        optional={"generation": st.integers(0, 3), "family_generation": st.integers(0, 3), "reporter": st.just("key")},
    ),
)
ODD = st.sampled_from(
    [
        {"status": "error", "error_class": "server", "error_message": "broken", "input_tokens": 200},
        {"status": "error", "error_class": "transport"},
        {"status": "timeout", "execution_time_ms": 30_000},
        {"status": "error", "error_class": "transport", "evidence": "status_only"},
        {"status": "error", "error_class": "rate_limited", "retry_after_s": 20},
        {"status": "rejected", "metadata": {"refused_by": "pace", "asked": 7}},
        {"status": "success", "metadata": {"asked": 3}},
        {"status": "error", "error_class": "auth", "credential": "a"},
        {"status": "error", "error_class": "auth", "credential": "b"},
        {"status": "error", "error_class": "invalid_input"},
        {"status": "success", "error_class": "policy"},
        {"status": "success", "overdue_ms": 150, "execution_time_ms": 300},
        {"status": "overdue", "execution_time_ms": 9_000},
        {"status": "rejected", "probe_requested": True},
        {"status": "cancelled"},
        {"status": "success", "user_id": "ana", "target": "example.com"},
        {"status": "success", "recorded_at": at(-400)},
        {"status": "success", "execution_time_ms": -1},
        {"status": "success", "recorded_at": "2027-01-15T09:00:00+01:00"},
    ]
)
PLACE = st.sampled_from(
    [
        {"headers": [(RESENT, b"1")]},
        {"headers": [(REKEYED, b"1:3")]},
        {"headers": [(REKEYED, b"?")]},
        {"partition": 0},
        {"partition": 1},
    ]
)
COMMAND = st.sampled_from(
    [
        {"verb": "set_policy", "policy": BreakerPolicy.model_validate({"failure_count": 1})},
        {
            "verb": "set_policy",
            "policy": BreakerPolicy.model_validate({"failure_rate_threshold": 0.1, "minimum_number_of_calls": 2}),
        },
        {"verb": "set_policy", "policy": BreakerPolicy.model_validate({"minimum_reporters": 3})},
        {"verb": "set_policy", "policy": BreakerPolicy.model_validate({"pace": "enforce"})},
        {"verb": "set_policy", "policy": BreakerPolicy.model_validate({})},
        {"verb": "force_open"},
        {"verb": "close"},
        {"verb": "reset"},
        {"verb": "disable"},
        {"verb": "auto"},
    ]
)
CRASHES = st.sampled_from([None, None, None, "before_rows", "during_rows", "after_rows", "after_outputs"])
TOOL = st.sampled_from(TOOLS)
RUN = st.tuples(st.just("run"), TOOL, st.integers(1, 15), SUCCESS)
ROUND = st.tuples(st.just("round"), st.integers(1, 5), SUCCESS)
ALONE = st.tuples(st.just("odd"), TOOL, st.builds(dict.__or__, EMITTERS, ODD))
MOVES = st.lists(
    st.one_of(
        RUN,
        RUN,
        ROUND,
        ROUND,
        ALONE,
        ALONE,
        st.tuples(st.just("misplaced"), TOOL, ODD | SUCCESS, PLACE),
        st.tuples(st.just("pause"), st.sampled_from([0.001, 0.3, 2.9, 3.1, 12, 61, 400, 90_000, -0.5, -30, -200])),
        st.tuples(st.just("command"), st.sampled_from([*TOOLS, "mcp:*"]), COMMAND),
        st.tuples(st.just("cut"), st.integers(1, 20), CRASHES),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Watched(World):
    """A world that remembers what its workers wrote, in the order in which they wrote it."""

    written: list[Any] = field(default_factory=list)

    def write(self, changes: Changes, *, outputs: bool = True) -> None:
        counts = [getattr(changes, name) for name in ("folded", "commands", "duplicates", "late", "leases", "retired")]
        copies = [(copy.tool_name, copy.value, copy.headers) for copy in changes.rekeyed]
        letters = [(letter.key, letter.field, letter.reason) for letter in changes.dead]
        self.written.append((list(changes.rows.items()), list(changes.circuits), letters, copies, counts))
        super().write(changes, outputs=outputs)


class Player:
    """Appends moves to a world's log, and folds what is there at each cut. ``batch`` replaces those of the cuts, without crashes."""

    def __init__(self, world: World, batch: int | None = None) -> None:
        self.world, self.batch = world, batch
        self.seconds = 100_000.0
        self.commands = 0

    def play(self, moves: list[tuple[Any, ...]]) -> None:
        for kind, *move in moves:
            getattr(self, kind)(*move)
        self.world.run_all(self.batch or 1000)

    def run(self, tool: str, count: int, fields: dict[str, Any]) -> None:
        for _ in range(count):
            self.odd(tool, fields)

    def round(self, count: int, fields: dict[str, Any]) -> None:
        for _ in range(count):
            for tool in TOOLS:
                self.odd(tool, fields)

    def odd(self, tool: str, fields: dict[str, Any], **place: Any) -> None:
        value = {"tool_name": tool, "status": "success", "recorded_at": at(self.seconds), **fields}
        self.world.append(msgspec.json.encode(value), tool_name=tool, seconds=self.seconds, **place)

    def misplaced(self, tool: str, fields: dict[str, Any], place: dict[str, Any]) -> None:
        self.odd(tool, fields, **place)

    def pause(self, seconds: float) -> None:
        self.seconds += seconds

    def command(self, name: str, fields: dict[str, Any]) -> None:
        self.commands += 1
        given = Command(command_id=UUID(int=self.commands), actor="ada", tool_name=name, **fields)
        partitions = range(self.world.partitions) if "*" in name else [owner_partition(name, self.world.partitions)]
        for partition in partitions:
            self.world.append(
                given.to_bytes(), tool_name=name, seconds=self.seconds, topic=COMMANDS, partition=partition
            )
        self.world.run_all(self.batch or 1000)

    def cut(self, size: int, crash: Crash | None) -> None:
        if self.batch is None:
            self.world.run(batch=size, crash=crash)
        self.world.run_all(self.batch or size)


def _worlds(kind: type[World], policy: BreakerPolicy, of_families: BreakerPolicy) -> tuple[World, World]:
    """Return a world whose worker counts runs, and one whose worker counts event by event."""
    return tuple(kind(policies=OnePolicy(policy, of_families), fold_type=fold) for fold in (FleetFold, EventByEvent))


@given(POLICIES, OF_FAMILIES, MOVES)
def test_runs_write_what_event_by_event_writes(policy, of_families, moves):
    found, expected = _worlds(Watched, policy, of_families)
    for world in (found, expected):
        Player(world).play(moves)
    assert found.written == expected.written


@given(POLICIES, OF_FAMILIES, MOVES, st.integers(1, 300))
def test_runs_leave_the_same_wherever_the_log_is_cut(policy, of_families, moves, batch):
    found, expected = _worlds(World, policy, of_families)
    Player(found, batch).play(moves)
    Player(expected, 1).play(moves)
    assert found.rows == expected.rows
    for circuit_id in {key.decode() for key in expected.rows if key[0] != 0xFF}:
        assert found.records(circuit_id) == expected.records(circuit_id)
    assert sorted(letter.key for letter in found.dead) == sorted(letter.key for letter in expected.dead)


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_few_events_of_healthy_tools_are_folded_on_their_own(monkeypatch, share):
    alone = []
    execution = FleetFold._execution
    monkeypatch.setattr(FleetFold, "_execution", lambda *args: alone.append(1) or execution(*args))
    world = World(policies=OnePolicy(FLEET_DEFAULT, FAMILY_DEFAULT))
    chance = Random(1)
    for number in range(10_000):
        status = "error" if chance.random() < share else "success"
        world.say(status, tool_name=TOOLS[number % 5], seconds=number / 1000, emitter_id=f"p{number % 3}")
    world.run_all(500)
    assert world.counted.folded == 10_000
    assert len(alone) <= 10_000 * (0.01 + 4 * share)


def test_a_run_looks_at_its_callers_only_until_enough_have_called(monkeypatch):
    looked: list[str] = []
    add_caller = Evidence.add_caller

    def noting(self: Evidence, name: str) -> None:
        looked.append(name)
        add_caller(self, name)

    monkeypatch.setattr(Evidence, "add_caller", noting)
    fold = FleetFold({}, OnePolicy(FLEET_DEFAULT), partitions=1, late_after_s=1e9, family_pattern="")
    values = [
        msgspec.json.encode({"tool_name": "search", "status": "success", "emitter_id": f"agent-{number % 20}"})
        for number in range(200)
    ]
    fold.executions(Message("executions", 0, number, 1_000_000, None, value) for number, value in enumerate(values))
    assert fold.take().folded == len(values)
    assert len(looked) <= 2 * FLEET_DEFAULT.minimum_reporters
