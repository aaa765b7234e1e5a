"""The class of a failure decides whether it opens the circuit of a guarded tool, and for how long."""

from __future__ import annotations

import asyncio
import functools

import anyio
import httpx
import pytest

from switchgear import (
    BreakerPolicy,
    CircuitOpenError,
    CredentialRefusedError,
    Switchgear,
    classify_result,
    outage_in_text,
)

THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60)


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=THREE)


def answering(status, **headers):
    def call():
        request = httpx.Request("GET", "https://api.test")
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        httpx.Response(status, headers=names, request=request).raise_for_status()

    return call


def times(number, tool, expected):
    for _ in range(number):
        with pytest.raises(expected):
            tool()


def test_wait_that_the_tool_asks_for_lengthens_the_cooldown(gear):
    limited = gear.guard("limited")(answering(429, retry_after="240"))
    times(3, limited, httpx.HTTPStatusError)
    with pytest.raises(CircuitOpenError) as refused:
        limited()
    assert 235 < refused.value.retry_after_s <= 240


@pytest.mark.parametrize("status", [400, 404, 422])
def test_wrong_argument_never_opens_the_circuit(gear, status):
    tool = gear.guard("tool")(answering(status))
    times(20, tool, httpx.HTTPStatusError)
    assert gear.status().local == {}


@pytest.mark.parametrize("status", [301, 304, 404])
def test_wrapped_wrong_argument_never_opens_the_circuit(gear, status):
    ask = answering(status)

    @gear.guard("tool")
    def tool():
        try:
            ask()
        except httpx.HTTPStatusError as error:
            raise LookupError("no forecast") from error

    times(20, tool, LookupError)
    assert gear.status().local == {}


def test_wrapped_refusal_of_another_tool_does_not_open_the_circuit(gear):
    inner = gear.guard("inner")(answering(503))

    @gear.guard("outer")
    def outer():
        try:
            inner()
        except CircuitOpenError as refused:
            raise LookupError("no forecast") from refused

    times(3, inner, httpx.HTTPStatusError)
    times(20, outer, LookupError)
    assert gear.status().local == {"inner": "open"}


def test_outage_raised_as_value_error_opens_the_circuit(gear):
    ask = answering(503)

    @gear.guard("tool")
    def tool():
        try:
            ask()
        except httpx.HTTPStatusError as error:
            raise ValueError("no forecast") from error

    times(3, tool, ValueError)
    assert gear.status().local == {"tool": "open"}


@pytest.mark.parametrize("status", [429, 500, 503, 504, 529])
def test_outage_opens_the_circuit(gear, status):
    times(3, gear.guard("tool")(answering(status)), httpx.HTTPStatusError)
    assert gear.status().local == {"tool": "open"}


def test_failure_of_an_inner_tool_opens_its_circuit_only(gear):
    inner = gear.guard("inner")(answering(503))

    @gear.guard("outer")
    def outer():
        inner()

    times(3, inner, httpx.HTTPStatusError)
    times(20, outer, CircuitOpenError)
    assert gear.status().local == {"inner": "open"}


async def test_exception_group_counts_for_what_is_in_it(gear):
    @gear.guard("group")
    async def group():
        async def down():
            await asyncio.sleep(0)
            raise ConnectionResetError

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(down)

    for _ in range(3):
        with pytest.raises(ExceptionGroup):
            await group()
    assert gear.status().local == {"group": "open"}


class GraphBubbleUp(Exception):  # noqa: N818 - LangGraph's name
    """As in LangGraph, whose interrupts derive from it: an agent waits for a person's approval."""


GraphBubbleUp.__module__ = "langgraph.errors"


def test_control_flow_of_a_framework_neither_opens_a_circuit_nor_ends_a_run_of_failures(gear):
    @gear.guard("tool")
    def tool(error):
        raise error

    for _ in range(9):
        with pytest.raises(GraphBubbleUp):
            tool(GraphBubbleUp())
    assert gear.status().local == {}
    for error in (ConnectionError(), ConnectionError(), GraphBubbleUp(), ConnectionError()):
        with pytest.raises(type(error)):
            tool(error)
    assert gear.status().local == {"tool": "open"}


def mcp(text):
    return {"content": [{"type": "text", "text": text}], "isError": True}


def test_error_of_an_mcp_tool_does_not_open_the_circuit(gear):
    tool = gear.guard("mcp:crm:find")(lambda: mcp("Connection refused"))
    for _ in range(20):
        assert tool()["isError"]
    assert gear.status().local == {}


def test_outage_in_the_text_of_an_mcp_tool_opens_the_circuit_with_by_text(gear):
    by_text = functools.partial(classify_result, by_text=outage_in_text)
    tool = gear.guard("mcp:crm:find", classify_result=by_text)(mcp)
    for _ in range(20):
        tool("no such customer")
    assert gear.status().local == {}
    for _ in range(3):
        tool("Connection refused")
    assert gear.status().local == {"mcp:crm:find": "open"}
    assert gear.try_acquire("mcp:crm:find").last_error.endswith("Connection refused")


def test_rejected_credentials_never_open_the_circuit_and_are_refused_after_three(gear):
    tool = gear.guard("tool")(answering(401))
    times(3, tool, httpx.HTTPStatusError)
    times(17, tool, CredentialRefusedError)
    assert gear.status().local == {}
