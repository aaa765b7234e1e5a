import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.bench.benefit.arms import arms
from tests.bench.benefit.arms.arm import Arm, Fleet, RefusedError, ToolCaller
from tests.bench.benefit.arms.framework_retries import Retrying
from tests.bench.benefit.arms.powertools_like import CACHED_S, FAILURES, RECOVERY_S, SUCCESSES, EnvironmentFleet
from tests.bench.benefit.arms.retries_fallback import RetryingThenReplica
from tests.bench.benefit.arms.told import with_list
from tests.bench.benefit.faults import Failed
from tests.bench.benefit.shared_tools import replica_of
from tests.support.virtual_time import in_virtual_time


class _Tool:
    """A tool that is up or down, and notes its calls."""

    def __init__(self, *, up: bool) -> None:
        self.up = up
        self.called: list[str] = []

    async def make(self, tool: str) -> int:
        self.called.append(tool)
        if not self.up and tool == "mcp:a:b":
            raise ConnectionError("down")
        return 1


async def _ended(call: Callable[[], Awaitable[object]]) -> str:
    """Return how a call ended."""
    try:
        await call()
    except RefusedError:
        return "refused"
    except ConnectionError:
        return "failed"
    return "answered"


def test_every_file_with_an_arm_is_in_the_table():
    found = list(arms().values())
    assert found[0].name == "nothing"
    assert [arm.place for arm in found] == list(range(len(found)))


def test_an_arm_is_here_if_what_it_needs_is_installed():
    assert Arm("a", "", 0, Fleet, needs="json").here
    assert not Arm("a", "", 0, Fleet, needs="no_such_module").here


@in_virtual_time
async def test_a_framework_calls_three_times_and_waits_one_second_and_two():
    tool = _Tool(up=False)
    began = asyncio.get_running_loop().time()
    assert await _ended(lambda: Retrying().call("mcp:a:b", tool.make)) == "failed"
    assert len(tool.called) == 3
    assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)


@in_virtual_time
async def test_a_refusal_is_not_tried_again_but_the_replica_is_called():
    class Refusing(ToolCaller):
        async def call(self, tool, make):
            if tool == "mcp:a:b":
                raise RefusedError("open")
            return await make(tool)

    tool = _Tool(up=True)
    assert await RetryingThenReplica(Refusing()).call("mcp:a:b", tool.make) == 1
    assert tool.called == [replica_of("mcp:a:b")]
    assert asyncio.get_running_loop().time() == 0.0


@in_virtual_time
async def test_an_environment_opens_by_its_own_failures_and_the_others_see_it_when_they_read_the_store():
    fleet, tool = EnvironmentFleet(), _Tool(up=False)
    one, other = fleet.process(0), fleet.process(1)
    assert await _ended(lambda: other.call("mcp:a:b", tool.make)) == "failed"
    assert [await _ended(lambda: one.call("mcp:a:b", tool.make)) for _ in range(FAILURES)] == ["failed"] * FAILURES
    assert await _ended(lambda: one.call("mcp:a:b", tool.make)) == "refused"
    assert await _ended(lambda: other.call("mcp:a:b", tool.make)) == "failed"  # what it read is still kept
    await asyncio.sleep(CACHED_S)
    assert await _ended(lambda: other.call("mcp:a:b", tool.make)) == "refused"


@in_virtual_time
async def test_one_environment_probes_and_closes_the_circuit_after_three_successes():
    fleet, tool = EnvironmentFleet(), _Tool(up=False)
    one, other = fleet.process(0), fleet.process(1)
    for _ in range(FAILURES):
        await _ended(lambda: one.call("mcp:a:b", tool.make))
    tool.up = True
    await asyncio.sleep(RECOVERY_S)
    assert await _ended(lambda: one.call("mcp:a:b", tool.make)) == "answered"
    assert await _ended(lambda: other.call("mcp:a:b", tool.make)) == "refused"
    for _ in range(SUCCESSES - 1):
        assert await _ended(lambda: one.call("mcp:a:b", tool.make)) == "answered"
    await asyncio.sleep(CACHED_S)
    assert await _ended(lambda: other.call("mcp:a:b", tool.make)) == "answered"


async def _with_an_open_circuit(tool_list):
    """Return a fleet and a process whose circuit of ``mcp:a:b`` has opened."""
    fleet, tool = with_list(tool_list)(), _Tool(up=False)
    process = fleet.process(0)
    for _ in range(20):
        if await _ended(lambda: process.call("mcp:a:b", tool.make)) == "refused":
            return fleet, process
        await asyncio.sleep(1)
    raise AssertionError("it did not open")


@in_virtual_time
async def test_each_conversation_is_told_once_that_a_tool_is_down():
    fleet, process = await _with_an_open_circuit("stable")
    for conversation in ("one", "two"):
        assert "mcp:a:b" in process.message(["mcp:a:b"], conversation)
        assert process.message(["mcp:a:b"], conversation) == ""
    fleet.close()


@in_virtual_time
async def test_the_list_of_a_new_conversation_leaves_out_a_tool_that_is_down_and_the_stable_list_does_not():
    tools = ["mcp:a:b", "mcp:c:d"]
    fleet, process = await _with_an_open_circuit("new_sessions")
    assert list(process.offered(tools, "new")) == ["mcp:c:d"]
    fleet.close()
    fleet, process = await _with_an_open_circuit("stable")
    assert list(process.offered(tools, "new")) == tools
    fleet.close()


@pytest.mark.slow
@in_virtual_time
async def test_a_fleet_with_pacing_waits_or_refuses_before_it_calls_more_than_the_tool_takes():
    fleet = arms()["Switchgear + pacing"].fleet()
    process, now, taken = fleet.process(0), asyncio.get_running_loop().time, dict[int, int]()
    ended, waited, asked_at = {"answered": 0, "refused": 0, "limited": 0}, 0, 0.0

    async def make(tool: str) -> int:
        nonlocal waited
        waited += now() > asked_at
        minute = int(now() // 60)
        taken[minute] = taken.get(minute, 0) + 1
        if taken[minute] > 30:
            too_many = Failed(429, "too many", {"retry-after": f"{60 - now() % 60:.0f}"})
            raise too_many()
        return 1

    while now() < 600:
        asked_at = now()
        try:
            await process.call("mcp:a:b", make)
            ended["answered"] += 1
        except RefusedError as refusal:
            assert refusal.wait_s
            ended["refused"] += 1
        except Exception:  # noqa: BLE001 - the tool's own refusal
            ended["limited"] += 1
        await asyncio.sleep(1)
    fleet.close()
    assert waited > 0
    assert ended["limited"] <= 10
    assert ended["answered"] >= 0.7 * 30 * 10
