"""The process's own circuits of servers."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest

from switchgear import BreakerPolicy, CircuitOpenError, FunctionHooks, Switchgear
from switchgear.guard.families import Family
from switchgear.guard.local_families import MAX_FAMILIES, family_policy_of
from switchgear.policies import PolicySet
from switchgear_schemas.plain_policy import PlainCusum, PlainPolicy
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT
from tests.support.clock import Clock
from tests.support.local_client import local_client
from tests.support.tool_server import SERVER, ToolServer, call_all

CIRCUIT = f"{SERVER}|family"


def client(clock: Clock | None = None, **options) -> Switchgear:
    return Switchgear.local(**options) if clock is None else local_client(clock, **options)


@pytest.fixture
def clock():
    return Clock(0.0)


@pytest.fixture
def server():
    return ToolServer()


def test_five_failures_in_a_row_of_two_tools_open_the_circuit_of_their_server(server):
    gear = client()
    tools = server.guarded(gear)
    server.up = False
    assert call_all(tools) == {"failed": 5, f"refused by {SERVER}": 35}
    assert gear.status().local == {CIRCUIT: "open"}


def test_one_broken_tool_does_not_open_the_circuit_of_a_server_whose_other_tools_are_idle(server):
    gear = client()
    tools = server.guarded(gear)
    call_all(tools)
    server.broken = {server.tools[0]}
    seen = [call_all({"": tools[server.tools[0]]}) for _ in range(9)]
    assert seen == [{"failed": 1}] * 5 + [{"refused": 1}] * 4
    assert gear.status().local == {server.tools[0]: "open"}


def test_after_a_recovery_one_broken_tool_still_does_not_open_the_circuit_of_its_server(server, clock):
    gear = client(clock)
    tools = server.guarded(gear)
    server.up = False
    call_all(tools)
    clock.now += 60
    server.up, server.broken = True, {server.tools[0]}
    assert tools[server.tools[1]]() == "found"
    for _ in range(4):  # it failed once in the outage
        assert call_all({"": tools[server.tools[0]]}) == {"failed": 1}
    assert gear.status().local == {server.tools[0]: "open"}


def test_a_tool_error_shows_that_the_server_answers():
    gear = client(local_policies=BreakerPolicy(consecutive_failures=100))
    for number in range(20):
        gear.try_acquire(f"{SERVER}:tool{number % 4}").failure(TimeoutError())
        if number % 4 == 3:
            for _ in range(11):  # the CUSUM of the default policy is then zero again
                gear.try_acquire(f"{SERVER}:tool0").failure("no such repository")
    assert gear.status().local == {}


def test_one_call_probes_the_server_and_then_all_its_tools_are_called(server, clock):
    gear = client(clock)
    tools = server.guarded(gear)
    server.up = False
    call_all(tools)
    clock.now += 60
    assert call_all(tools) == {"failed": 1, f"refused by {SERVER}": 39}
    clock.now += 60
    server.up, server.calls = True, 0
    assert call_all(tools) == {"found": 40}
    assert server.calls == 40


def test_the_probe_of_a_server_passes_the_open_circuit_of_its_tool_and_a_success_frees_all_of_them(clock):
    server = ToolServer(tools=2)
    gear = client(clock, local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=3_600))
    tools = server.guarded(gear)
    server.up = False
    for _ in range(2):
        call_all(tools)
    assert gear.status().local == dict.fromkeys(server.tools, "open")
    gear.try_acquire(f"{SERVER}:third").failure(TimeoutError())
    assert gear.status().local[CIRCUIT] == "open"
    clock.now += 60
    server.up = True
    assert gear.available(server.tools) == server.tools
    assert tools[server.tools[0]]() == "found"
    assert gear.status().local == dict.fromkeys(server.tools, "open")  # each may be probed at once now
    assert call_all(tools, tools) == {"found": 4}
    assert gear.status().local == {}


def test_a_circuit_that_opened_long_before_the_outage_keeps_its_wait(clock):
    server = ToolServer(tools=4)
    gear = client(clock, local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=3_600))
    tools = server.guarded(gear)
    call_all(tools)
    broken = server.tools[0]
    server.broken = {broken}
    for _ in range(2):
        call_all({"": tools[broken]})
    clock.now += 300
    server.up, others = False, {tool: tools[tool] for tool in server.tools[1:]}
    for _ in range(2):
        call_all(others)
    clock.now += 60
    server.up = True
    call_all(others)
    assert call_all(tools) == {"refused": 1, "found": 3}


def test_a_circuit_that_the_policy_forces_open_refuses_the_probe_of_its_server(server, clock):
    off = server.tools[0]
    gear = client(clock, local_policies={off: BreakerPolicy(mode="forced_open")})
    tools = server.guarded(gear)
    server.up = False
    call_all(tools)
    clock.now += 60
    server.up = True
    assert call_all(tools) == {"refused": 1, "found": 39}
    assert gear.is_open(off)


def test_families_are_off_with_an_empty_pattern(server):
    gear = client(family_pattern="")
    server.up = False
    assert call_all(server.guarded(gear)) == {"failed": 40}
    assert gear.status().local == {}


def test_a_session_has_no_circuits_of_servers_of_its_own(server):
    gear = client()
    tools = server.guarded(gear)
    server.up = False
    with gear.session() as session:
        assert call_all(tools) == {"failed": 40}
    assert session.status().circuits == {}


def test_a_policy_set_has_policies_for_servers():
    policies = PolicySet(
        family={SERVER: {"consecutive_failures": 2}}, base=LOCAL_DEFAULT, family_base=LOCAL_FAMILY_DEFAULT
    )
    server, other = ToolServer(tools=4), ToolServer("mcp:other", tools=4)
    gear = client(local_policies=policies)
    server.up = other.up = False
    assert call_all(server.guarded(gear)) == {"failed": 2, f"refused by {SERVER}": 2}
    assert call_all(other.guarded(gear)) == {"failed": 4}


def test_the_default_policy_is_that_of_the_contract():
    plain = family_policy_of(None)(SERVER)
    assert isinstance(plain, PlainPolicy)
    assert isinstance(plain.cusum, PlainCusum)
    values = msgspec.structs.asdict(plain) | {"cusum": msgspec.structs.asdict(plain.cusum)}
    assert BreakerPolicy(**values) == LOCAL_FAMILY_DEFAULT


def test_the_refusal_names_the_server_and_its_last_error(server):
    tools = server.guarded(client())
    server.up = False
    call_all(tools)
    with pytest.raises(CircuitOpenError) as caught:
        tools[server.tools[7]]()
    refused = caught.value.rejection
    assert (refused.tool, refused.family, refused.scope, refused.source) == (server.tools[7], SERVER, "family", "local")
    assert refused.last_error == "ConnectionError: connection refused"
    assert refused.cause.tools == 2


def test_hooks_get_the_changes_of_a_server(server):
    changes = []
    gear = client(hooks=[FunctionHooks(on_transition=changes.append)])
    server.up = False
    call_all(server.guarded(gear))
    assert [(each.circuit_id, each.tool, each.state, each.source) for each in changes] == [
        (CIRCUIT, SERVER, "open", "local")
    ]


async def test_coroutines_are_refused_as_functions_are(server):
    gear = client()
    server.up = False

    def guarded(tool):
        @gear.guard(tool)
        async def call():
            await asyncio.sleep(0)
            return server.call(tool)

        return call

    seen = []
    for tool in server.tools[:8]:
        try:
            await guarded(tool)()
        except CircuitOpenError as refused:
            seen.append(refused.family)
        except ConnectionError:
            seen.append("failed")
    assert seen == ["failed"] * 5 + [SERVER] * 3


def test_invented_names_of_servers_make_no_more_circuits_than_the_limit_and_are_called():
    gear = client()
    families = gear._decision.families
    for number in range(MAX_FAMILIES + 5):
        families.get(Family(f"mcp:{number}", f"mcp:{number}|family"))
    assert len(families.all_now()) == MAX_FAMILIES
    assert call_all(ToolServer(tools=3).guarded(gear)) == {"found": 3}
    assert gear.try_acquire(f"{SERVER}:tool0")


@pytest.mark.slow
def test_a_forked_child_can_probe_a_server_whose_probe_its_parent_makes(server, clock):
    gear = client(clock)
    server.up = False
    call_all(server.guarded(gear))
    clock.now += 60
    with gear._decision.families.all_now()[0].lock:
        permit = gear.try_acquire(server.tools[0])
        assert permit.probe
        assert not gear.try_acquire(server.tools[1])
        child = os.fork()
        if child == 0:
            os._exit(0 if gear.try_acquire(server.tools[1]) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    permit.release()
    assert gear.try_acquire(server.tools[1])
