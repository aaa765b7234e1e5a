"""The fleet's circuit of a server decides about the calls of all its tools, in all processes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchgear import BreakerPolicy, CircuitOpenError, FunctionHooks
from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet
from tests.support.tool_server import SERVER, ToolServer, call_all

pytestmark = pytest.mark.slow

CIRCUIT = f"{SERVER}|family"
NEVER_LOCAL = PolicySet({"mode": "disabled"}, family={"*": {"mode": "disabled"}})


class Fleet:
    """Processes that call one server."""

    def __init__(self, processes: int = 4, tools: int = 40, policies=None, **options) -> None:
        self.fleet = InMemoryFleet(policies)
        self.server = ToolServer(tools=tools)
        options.setdefault("local_policies", NEVER_LOCAL)
        self.gears = [self.fleet.gear(f"p{number}", **options) for number in range(processes)]
        self.processes = [self.server.guarded(gear) for gear in self.gears]

    def die(self) -> None:
        """Take the server down, and call until the fleet knows."""
        self.server.up = False
        call_all(*self.processes)
        assert self.fleet.state(CIRCUIT) == "open"

    def wait(self) -> None:
        """Let the circuit's wait pass."""
        self.fleet.clock.advance(60)


@pytest.fixture
def four():
    return Fleet()


def test_a_dead_server_is_refused_for_all_tools_in_all_processes_after_a_few_failures(four):
    four.server.up = False
    seen = call_all(*four.processes)
    assert seen["failed"] <= 20
    assert seen["failed"] + seen[f"refused by {SERVER}"] == 160
    assert call_all(*four.processes) == {f"refused by {SERVER}": 160}
    assert [circuit.state for circuit in four.fleet.circuits().values()] == ["open"]


@pytest.mark.slow
def test_a_dead_server_gets_one_call_after_each_wait_whatever_its_number_of_tools(four):
    four.die()
    for _ in range(3):
        four.server.calls = 0
        four.wait()
        call_all(*four.processes)
        call_all(*four.processes)
        assert four.server.calls == 1


@pytest.mark.slow
def test_a_success_of_a_probe_lets_all_tools_be_called_in_all_processes(four):
    four.die()
    four.wait()
    four.server.up, four.server.calls = True, 0
    assert call_all(*four.processes) == {"found": 160}
    assert four.fleet.state(CIRCUIT) == "closed"


@pytest.mark.parametrize("probes", [1, 3])
def test_as_many_probes_as_the_family_permits_are_made_by_all_tools_together(probes):
    values = {
        "permitted_number_of_calls_in_half_open_state": probes,
        "success_threshold_to_close": probes,
        "minimum_number_of_calls": 10,
    }
    several = Fleet(policies=PolicySet(family={SERVER: values}))
    several.die()
    several.wait()
    permits = [gear.try_acquire(tool) for gear in several.gears for tool in several.server.tools]
    granted = [permit for permit in permits if permit]
    assert len(granted) == probes
    assert all(permit.probe and permit.lease_id for permit in granted)
    assert {refused.family for refused in permits if not refused} == {SERVER}
    for permit in granted:
        permit.success()
    assert several.fleet.state(CIRCUIT) == "closed"


def test_the_probe_of_a_server_calls_a_tool_whose_own_circuit_is_open():
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=3_600)
    few = Fleet(tools=2, policies=policy, local_policies=policy)
    few.server.up = False
    call_all(*few.processes)
    assert {few.fleet.state(tool) for tool in few.server.tools} == {"open"}
    for number in range(40):  # the outage goes on for other tools
        few.fleet.report(f"{SERVER}:other{number}", "timeout", process=f"q{number % 2}")
    assert few.fleet.state(CIRCUIT) == "open"
    few.wait()
    few.server.up = True
    assert few.gears[0].available(few.server.tools) == few.server.tools
    assert few.processes[0][few.server.tools[0]]() == "found"
    assert few.fleet.state(CIRCUIT) == "closed"
    assert call_all(few.processes[0], few.processes[0]) == {"found": 4}
    assert {few.fleet.state(tool) for tool in few.server.tools} == {"closed"}


def test_a_tool_that_an_operator_forces_open_is_refused_by_its_own_circuit_and_takes_no_probe_of_its_server(four):
    four.die()
    four.fleet.open_circuit(four.server.tools[0])
    four.wait()
    with pytest.raises(CircuitOpenError) as caught:
        four.processes[0][four.server.tools[0]]()
    assert (caught.value.family, caught.value.state) == (None, "forced_open")
    assert four.gears[0].is_open(four.server.tools[0])
    four.server.up = True
    assert four.processes[0][four.server.tools[1]]() == "found"


@pytest.mark.slow
def test_a_server_that_an_operator_forces_open_is_refused_until_further_notice(four):
    four.fleet.open_circuit(SERVER, family=True)
    four.wait()
    assert call_all(*four.processes) == {f"refused by {SERVER}": 160}
    assert four.server.calls == 0
    four.fleet.close_circuit(SERVER, family=True)
    assert call_all(*four.processes) == {"found": 160}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["disable", "metrics_only"])
def test_a_disabled_circuit_of_a_server_lets_calls_through_whatever_the_processes_say(verb):
    four = Fleet(local_policies=None)
    four.die()
    four.fleet.command(SERVER, verb, circuit_id=CIRCUIT)
    four.server.up = True
    assert call_all(*four.processes) == {"found": 160}


@pytest.mark.slow
def test_a_server_that_recovers_by_degrees_gets_the_share_of_each_step_and_its_refusals_name_it():
    ramp = {"recovery_ramp": [0.1, 0.25, 0.5], "recovery_ramp_step_s": 10}
    four = Fleet(policies=PolicySet({"mode": "disabled"}, family={"*": ramp}))
    four.die()
    four.wait()
    four.server.up = True
    seen = call_all(*four.processes)
    assert seen["found"] >= 1
    refused = next(answer for _ in range(10) if not (answer := four.gears[0].try_acquire(four.server.tools[0])))
    assert (refused.family, refused.source, refused.state) == (SERVER, "fleet", "closed")
    assert f"The server {SERVER} of the tool {four.server.tools[0]} is recovering" in refused.text
    assert not four.gears[0].is_open(four.server.tools[0])
    assert four.gears[0].available(four.server.tools) == four.server.tools
    for share in (0.1, 0.25, 0.5, 1.0):
        view = four.fleet.circuits()[CIRCUIT]
        assert view.admitted_share == share
        seen = call_all(*four.processes)
        assert seen["found"] == pytest.approx(160 * share, abs=8)
        assert seen["found"] + seen[f"refused by {SERVER}"] == 160
        four.fleet.clock.advance(10)
        call_all(*four.processes)  # the owner has no timer


@pytest.mark.slow
def test_a_released_lease_is_free_for_another_tool_of_the_same_process(four):
    four.die()
    four.wait()
    gear, tools = four.gears[0], four.server.tools
    permit = gear.try_acquire(tools[0])
    assert not gear.try_acquire(tools[1])
    permit.release()
    again = gear.try_acquire(tools[1])
    assert again.lease_id == permit.lease_id


def test_no_process_asks_while_a_probe_is_out_and_a_cancelled_one_is_free_again(four):
    four.die()
    four.wait()
    permit = four.gears[0].try_acquire(four.server.tools[0])
    assert [bool(gear.try_acquire(four.server.tools[3])) for gear in four.gears[1:]] == [False] * 3
    permit.ignore()
    four.fleet.clock.advance(1)  # after a request, a process asks again a second later
    assert four.gears[1].try_acquire(four.server.tools[3])


def test_the_events_carry_the_generation_and_the_lease_of_the_family(four):
    call_all(four.processes[0])
    assert {event["family_generation"] for event in four.fleet.events()} == {0}
    four.die()
    four.wait()
    permit = four.gears[0].try_acquire(four.server.tools[0])
    asked, event = four.fleet.events(four.server.tools[0])[-1], None
    assert (asked["status"], asked["probe_requested"], asked["metadata"]["refused_by"]) == ("rejected", True, "fleet")
    assert (asked["family_generation"], asked["metadata"]["family"]) == (1, SERVER)
    permit.success()
    event = four.fleet.events(four.server.tools[0])[-1]
    assert (event["family_generation"], event["family_lease_id"]) == (2, permit.lease_id)
    assert "lease_id" not in event


def test_a_tool_without_a_family_has_events_without_its_fields(four):
    four.gears[0].call("search", lambda: "found")
    assert not any(name.startswith("family") for name in four.fleet.events("search")[0])


def test_without_its_owner_each_process_probes_by_its_own_circuit_after_some_silence():
    one = Fleet(fleet_silence=5.0, local_policies=None)
    one.die()
    one.fleet.stop_worker()
    one.wait()
    one.server.up = True
    for _ in range(3):
        assert call_all(one.processes[0]) == {f"refused by {SERVER}": 40}
        one.fleet.clock.advance(2)
    assert call_all(one.processes[0]) == {f"refused by {SERVER}": 1, "found": 39}
    assert one.gears[0].status().owner_silent_s.keys() == {CIRCUIT}


def test_a_process_that_hears_nothing_from_the_fleet_decides_by_its_last_state_and_then_alone():
    one = Fleet(processes=1)
    one.die()
    one.fleet.cut(one.gears[0])
    assert call_all(one.processes[0]) == {f"refused by {SERVER}": 40}
    one.fleet.clock.advance(301)
    one.gears[0].status()
    one.server.up = True
    assert call_all(one.processes[0]) == {"found": 40}


def test_a_process_that_denies_every_call_blames_no_server():
    one = Fleet(processes=1, on_state_unavailable="deny")
    one.fleet.cut(one.gears[0])
    one.fleet.clock.advance(16)
    one.gears[0].status()
    assert call_all(one.processes[0]) == {"refused": 40}


def test_a_call_that_its_servers_probe_makes_itself_passes(four):
    four.die()
    four.wait()
    four.server.up = True
    outer, inner = four.server.tools[:2]
    nested = four.gears[0].guard(outer)(four.processes[0][inner])
    assert nested() == "found"
    assert four.fleet.state(CIRCUIT) == "closed"


def test_a_fallback_of_the_same_dead_server_is_not_named(four):
    gear, (first, second, *_) = four.gears[0], four.server.tools
    gear.map_fallbacks({first: [second, "mcp:gitlab:search"]})
    four.die()
    assert gear.try_acquire(first).fallback == "mcp:gitlab:search"


def test_a_sessions_calls_are_refused_by_the_server_of_the_fleet_and_report_to_it(four):
    with four.gears[0].session("s-1"):
        four.server.up = False
        call_all(four.processes[0])
        assert four.fleet.state(CIRCUIT) == "open"
        assert call_all(four.processes[0]) == {f"refused by {SERVER}": 40}


def test_hooks_and_the_status_show_the_circuit_of_the_server():
    changes = []
    one = Fleet(processes=1, hooks=[FunctionHooks(on_transition=changes.append)])
    one.die()
    assert [(each.circuit_id, each.tool, each.state, each.source) for each in changes] == [
        (CIRCUIT, SERVER, "open", "fleet")
    ]
    assert one.gears[0].status().fleet == {CIRCUIT: "open"}
    assert one.gears[0].circuits()[CIRCUIT].family == SERVER


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.floats(0, 5)), min_size=20, max_size=150),
    st.integers(0, 5),
)
def test_one_broken_tool_of_a_healthy_server_never_opens_the_circuit_of_the_server(calls, broken):
    """Calls of any processes and tools in any order, with pauses. The server has answered for each tool before."""
    healthy = Fleet(processes=3, tools=6, local_policies=None)
    call_all(*healthy.processes)
    healthy.server.broken = {healthy.server.tools[broken]}
    for process, tool, pause in calls:
        call_all({"": healthy.processes[process][healthy.server.tools[tool]]})
        healthy.fleet.clock.advance(pause)
    assert healthy.fleet.state(CIRCUIT) == "closed"
    assert all(CIRCUIT not in gear.status().local for gear in healthy.gears)


@pytest.mark.deep
@settings(max_examples=50)
@given(st.lists(st.integers(0, 159), min_size=160, max_size=400, unique=False), st.integers(1, 3))
def test_an_outage_costs_a_few_failures_and_one_call_for_each_wait(order, waits):
    """The calls of 4 processes with 40 tools each come in any order, before and after the recovery."""
    four = Fleet(local_policies=None)
    calls = [call for tools in four.processes for call in tools.values()]
    four.die()
    four.server.calls = 0
    for _ in range(waits):
        four.wait()
        call_all({str(number): calls[one] for number, one in enumerate(order)})
    assert four.server.calls == waits
    four.wait()
    four.server.up, four.server.calls = True, 0
    made = call_all({str(number): calls[one] for number, one in enumerate(order)})
    assert made == {"found": len(order)}
    assert four.server.calls == len(order)
