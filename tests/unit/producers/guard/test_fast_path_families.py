"""The fast path asks the circuits of a tool's server, and its events carry the generation of the fleet's one."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear import CircuitOpenError, Switchgear
from switchgear.emitter.encode import encode_items
from switchgear.follower.view import CircuitView, Instant
from tests.support.tool_server import SERVER, ToolServer, call_all

CIRCUIT = f"{SERVER}|family"


@pytest.fixture
def server():
    return ToolServer(tools=6)


@pytest.fixture
def connected():
    """A client whose broker is away: what it would send stays in its buffer."""
    made = Switchgear("127.0.0.1:1", service="planner")
    made._emitter.wake = lambda urgent: None
    made._runtime.started = True
    yield made
    made._emitter.closed = True


def events(gear):
    items = list(gear._emitter.buffer.items)
    batches = encode_items(items, emitter_id="me", service="planner", clock_offset=0.0, failed=pytest.fail)
    return [json.loads(value) for batch in batches for value in batch.values]


def say(gear, state, generation=3, mode="enforce"):
    """Let the fleet's circuit of the server have a state."""
    table = gear._follower.table
    version = len(table.views) + generation
    table.families.add(CIRCUIT)
    table.views[CIRCUIT] = CircuitView(
        CIRCUIT, SERVER, state, version, generation, Instant(0), "family", open_until=Instant(1e12), mode=mode
    )


@pytest.mark.parametrize("local", [True, False])
def test_a_call_of_a_tool_with_a_server_waits_for_no_lock(server, connected, local):
    gear = Switchgear.local() if local else connected
    tools = server.guarded(gear)
    call_all(tools)
    decision = gear._decision
    with decision.families.all_now()[0].lock, decision.local.circuits[server.tools[0]].lock:
        assert call_all(tools) == {"found": 6}


async def test_a_coroutine_call_of_a_tool_with_a_server_waits_for_no_lock(server):
    gear = Switchgear.local()

    @gear.guard(server.tools[0])
    async def call():
        await asyncio.sleep(0)
        return "found"

    await call()
    with gear._decision.families.all_now()[0].lock:
        assert await call() == "found"


def test_failures_of_two_tools_end_the_fast_path_of_a_third(server, connected):
    tools = server.guarded(connected)
    call_all(tools)
    server.up = False
    assert call_all(tools) == {"failed": 5, f"refused by {SERVER}": 1}
    assert call_all(tools) == {f"refused by {SERVER}": 6}


def test_a_success_on_the_fast_path_of_one_tool_ends_the_failures_of_another(server, connected):
    tools = server.guarded(connected)
    call_all(tools)
    for _ in range(9):
        server.broken = {server.tools[0]}
        call_all({"": tools[server.tools[0]]})
        call_all({"": tools[server.tools[1]]})
    assert connected.status().local == {server.tools[0]: "open"}


def test_plain_successes_carry_the_generation_of_the_family_and_none_of_other_tools(server, connected):
    connected._follower.loaded = True
    guarded, other = connected.guard(server.tools[0])(lambda: "found"), connected.guard("search")(lambda: "found")
    for call in (guarded, other):
        call()
        call()
    say(connected, "closed")
    guarded()
    found = {}
    for event in events(connected):
        found.setdefault(event["tool_name"], []).append(event.get("family_generation"))
    assert found == {server.tools[0]: [0, 0, 3], "search": [None, None]}


def test_a_server_that_the_fleet_has_opened_is_refused_on_the_fast_path(server, connected):
    tools = server.guarded(connected)
    call_all(tools)
    say(connected, "open")
    with pytest.raises(CircuitOpenError) as caught:
        tools[server.tools[2]]()
    assert (caught.value.family, caught.value.rejection.source) == (SERVER, "fleet")
    assert server.calls == 6


def test_a_disabled_circuit_of_a_server_overrules_the_one_of_the_process(server, connected):
    tools = server.guarded(connected)
    call_all(tools)
    server.up = False
    call_all(tools)
    assert connected.status().local == {CIRCUIT: "open"}
    say(connected, "disabled", mode="disabled")
    server.up = True
    assert call_all(tools) == {"found": 6}


def test_a_call_that_began_before_a_failure_of_its_server_still_ends_the_run(server):
    gear = Switchgear.local()
    first, second = server.tools[:2]

    @gear.guard(first)
    def call():
        gear.try_acquire(second).failure(TimeoutError())

    call()
    call()
    breaker = gear._decision.families.all_now()[0].breaker
    assert breaker._evidence.streak == 0
