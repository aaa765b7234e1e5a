"""In this order: another tool, a kept result, the tool all the same, the error; and a user's own function in place of tools."""

from __future__ import annotations

import asyncio
import sys

import pytest

from switchgear import BreakerPolicy, CachePolicy, CircuitOpenError, OptionError
from switchgear.testing import InMemoryFleet

STALE = CachePolicy(ttl_s=0, stale_for_s=600)


class Tool:
    def __init__(self):
        self.down = False
        self.calls = 0

    def __call__(self, city):
        self.calls += 1
        if self.down:
            raise ConnectionError("down")
        return f"sun in {city}"


def test_a_cached_result_is_served_when_the_whole_chain_is_open():
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=1))
    gear = fleet.gear("planner", local_policies=BreakerPolicy(consecutive_failures=1))
    tool = Tool()
    primary = gear.guard("a", fallback="b", cache=STALE)(tool)
    gear.guard("b")(lambda city: f"b {city}")
    primary("Oslo")
    tool.down = True
    for name in "ab":
        gear.try_acquire(name).failure(ConnectionError())
    found = gear.answer(primary, "Oslo")
    assert (found.value, found.served_by, found.stale) == ("sun in Oslo", "cache", True)
    assert tool.calls == 1
    with pytest.raises(ConnectionError):
        primary("Bergen")
    gear.flush()
    assert [one["served_by"] for one in fleet.events("a") if one["status"] == "rejected"] == ["cache"]
    gear.close()


async def test_a_coroutine_function_is_served_in_the_same_order(gear, open_circuit):
    tool = Tool()

    async def get(city):
        await asyncio.sleep(0)
        return tool(city)

    primary = gear.guard("a", fallback="b", cache=STALE)(get)
    await primary("Oslo")
    for name in "ab":
        open_circuit(name)
    assert (await gear.aanswer(primary, "Oslo")).served_by == "cache"
    assert tool.calls == 1


# -- functions --------------------------------------------------------------------------------------------------------


def test_fallback_functions_that_call_each_other_in_a_circle_end_in_the_refusal(gear, open_circuit):
    tools = {}
    tools["a"] = gear.guard("a", fallback=lambda: f"b: {tools['b']()}")(lambda: "a")
    tools["b"] = gear.guard("b", fallback=lambda: f"a: {tools['a']()}")(lambda: "b")
    for tool in "ab":
        open_circuit(tool)
    limit = sys.getrecursionlimit()
    with pytest.raises(CircuitOpenError) as refused:
        tools["a"]()
    assert refused.value.tool == "a"
    assert sys.getrecursionlimit() == limit
    with pytest.raises(CircuitOpenError):
        tools["b"]()


async def test_fallback_coroutine_functions_that_call_each_other_in_a_circle_end_in_the_refusal(gear, open_circuit):
    tools = {}

    async def acall(name):
        return await tools[name]("a" if name == "b" else "b")

    tools["a"] = gear.guard("a", fallback=lambda _name: acall("b"))(acall)
    tools["b"] = gear.guard("b", fallback=lambda _name: acall("a"))(acall)
    for tool in "ab":
        open_circuit(tool)
    with pytest.raises(CircuitOpenError):
        await tools["a"]("b")


def test_arguments_are_adapted_for_a_function_too(gear, open_circuit, caplog):
    def own(q, *, limit):
        return q, limit

    def adapt(query, *, pages=1):
        return (query,), {"limit": 10 * pages}

    def broken(*_args, **_kwargs):
        raise KeyError("pages")

    found = gear.guard("a", fallback=own, adapt=adapt)(lambda query, *, pages=1: (query, pages))
    passed_over = gear.guard("a", fallback=own, adapt=broken)(lambda query: query)
    open_circuit("a")
    assert found("x", pages=2) == ("x", 20)
    with pytest.raises(CircuitOpenError):
        passed_over("x")
    assert "the arguments of a could not be adapted for" in caplog.text


def test_rejects_adapters_by_tool_for_a_fallback_function(gear):
    with pytest.raises(OptionError, match="The option adapt of a can't be a dict by tool: its fallback is a function"):
        gear.guard("a", fallback=print, adapt={"b": print})(str)
