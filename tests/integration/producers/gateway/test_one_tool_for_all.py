"""One tool for all: agents in TypeScript, on a gateway, on Kafka, and programs that OpenTelemetry's libraries instrument, in real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.pacing import DEMAND_S
from switchgear_schemas.settings import Settings
from tests.frameworks.environments import HERE, INSTRUMENTED, python_of
from tests.support.agents import AgentLink, Conductor
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment, switchgear
from tests.support.recovering import policy_text
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.shared_tool import SharedTool
from tests.support.sinking import read_topic
from tests.support.typescript import built_client, compiled

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

PROBES = 3
WAIT_S = 2.5
HELD_S = 600
"""The circuits of tools ``held_…`` stay open."""
FAILURES = 5
"""In a row, they open a circuit."""
RECOVERY_S = HAPPEN_S
RATE = 30
"""Calls a second of the tool ``paced``, which all agents make together."""
PACED_S = 8.0
PROGRAMS = {
    "openinference over http": ("openinference", "http", "openinference/0.1"),
    "pydantic-ai over grpc": ("pydantic_ai", "grpc", "otel-genai/1.41"),
    "openinference over grpc": ("openinference", "grpc", "openinference/0.1"),
    "pydantic-ai over http": ("pydantic_ai", "http", "otel-genai/1.41"),
    "langfuse over http": ("langfuse", "http", "langfuse/5"),
    "langfuse over grpc": ("langfuse", "grpc", "langfuse/5"),
}
"""Library, protocol, and how the gateway calls the convention. Langfuse hides the kind of error: its failures count half, in rates alone."""


def deep(programs):
    """Each takes a while; the libraries of some are in an environment of their own."""
    return [pytest.param(program, marks=pytest.mark.deep) for program in programs]


@dataclass
class World:
    """The system, its agents and their tool."""

    settings: Settings
    folder: Path
    gateway: RunningGateway
    tool: SharedTool
    agents: dict[str, AgentLink]
    stack: AsyncExitStack
    """Ends what runs, after the last test."""

    async def all_call(self, circuit: str) -> None:
        """Let each agent make a call that succeeds."""
        self.tool.state = "healthy"
        for name, agent in self.agents.items():
            await agent.until(circuit, available=True)
            found = await agent.call(circuit)
            assert (found["ok"], found["failed"], found["refused"]) == (1, 0, 0), (name, found)

    async def instrumented(self, program: str, circuit: str, calls: int) -> None:
        """Run an instrumented program to its end."""
        library, way, _ = PROGRAMS[program]
        endpoint = self.gateway.url if way == "http" else f"http://{self.settings.gateway_otlp_grpc}"
        command = [
            await asyncio.to_thread(python_of, INSTRUMENTED),
            HERE / "instrumented.py",
            library,
            way,
            endpoint,
            circuit,
        ]
        done = await asyncio.to_thread(
            subprocess.run,
            [*map(str, command), str(self.tool.port), str(calls)],
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
            env=environment(extra={"PYTHONPATH": ""}),
        )
        assert done.returncode == 0, done.stderr

    async def events_of(self, circuit: str) -> list[dict[str, Any]]:
        """Return the events of a tool that are in the topic."""
        found = [json.loads(each.value) for each in await read_topic(self.settings, self.settings.topics.executions)]
        return [each for each in found if each["tool_name"] == circuit]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(kafka, tmp_path_factory):
    await asyncio.to_thread(built_client)
    folder: Path = tmp_path_factory.mktemp("one-tool")
    policy = policy_text(PROBES, WAIT_S)
    held = policy_text(PROBES, HELD_S).replace("[default]", '[tools."held_*"]')
    held = held.replace('_rate_threshold = "off"', f"_rate_threshold = 0.5\nminimum_number_of_calls = {FAILURES}")
    paced = f'[tools.paced]\npace = "enforce"\npace_limit = "{RATE}/s"\npace_wait_s = 0\n'
    (folder / "policies.toml").write_text(f"{policy}\n{held}\n{paced}")
    settings = kafka.settings(
        gateway_http=f"127.0.0.1:{any_free_port()}",
        gateway_otlp_grpc=f"127.0.0.1:{any_free_port()}",
        policy_file=folder / "policies.toml",
    )
    await ensure_topics(settings)
    async with AsyncExitStack() as stack:
        worker = stack.enter_context(switchgear("worker", log=folder / "worker.log", settings=settings))
        gateway = await asyncio.to_thread(stack.enter_context, running_gateway(settings, folder / "gateway.log"))
        await asyncio.to_thread(worker.wait_for_output, "ready")
        tool = await stack.enter_async_context(SharedTool())
        conductor = await stack.enter_async_context(Conductor(folder, tool.port))
        agents = {
            "typescript": await conductor.typescript("typescript", gateway.url),
            "gateway": await conductor.python("gateway", gateway.url),
            "kafka": await conductor.python("kafka", settings.kafka_bootstrap_servers, prefix=settings.topic_prefix),
        }
        yield World(settings, folder, gateway, tool, agents, stack)


@pytest.mark.parametrize("failing", ["typescript", *deep(["gateway", "kafka", *list(PROGRAMS)[:2]])])
async def test_tool_that_fails_in_one_program_is_refused_in_all_agents_and_recovers_by_exactly_n_probes(world, failing):
    tool = world.tool
    await world.all_call("shared")
    tool.state, calls = "broken", tool.calls

    async def fail() -> None:
        if failing in world.agents:
            assert (await world.agents[failing].call("shared", FAILURES))["failed"] == FAILURES
        else:
            await world.instrumented(failing, "shared", FAILURES)

    async def refused(name: str) -> dict[str, Any]:
        if name == failing:
            await fail()
        await world.agents[name].until("shared", available=False)
        return await world.agents[name].call("shared")

    alone = [] if failing in world.agents else [fail()]
    answers = await asyncio.gather(*map(refused, world.agents), *alone)
    for found in answers[: len(world.agents)]:
        assert found["refused"] == 1, answers
        assert "The tool shared is unavailable (circuit open)." in found["text"]
    assert tool.calls == calls + FAILURES, "it failed in one program alone"

    recovery = tool.mend(PROBES)
    for agent in world.agents.values():
        agent.loop("shared")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(recovery.over.wait(), RECOVERY_S)
    found = {name: await agent.stop() for name, agent in world.agents.items()}
    assert (recovery.probes, recovery.plain, recovery.over.is_set()) == (PROBES, 0, True), found
    assert not any(each["failed"] for each in found.values()), found


@pytest.mark.deep
async def test_agents_keep_the_rate_limit_of_a_tool_together_and_each_has_its_part(world):
    tool = world.tool
    await world.all_call("paced")
    for agent in world.agents.values():
        agent.loop("paced")
    await asyncio.sleep(3 * DEMAND_S / 2)  # until the records say what all of them ask for
    calls, began = tool.calls, time.monotonic()
    await asyncio.sleep(PACED_S)
    calls, took_s = tool.calls - calls, time.monotonic() - began
    found = {name: await agent.stop() for name, agent in world.agents.items()}
    assert 0.7 * RATE <= calls / took_s <= 1.1 * RATE, found
    for name, each in found.items():
        assert (each["failed"], each["refused"] > each["ok"] > 0.1 * RATE * PACED_S) == (0, True), (name, found)
        assert (
            "The tool paced was not called: its rate limit is used up. Do not call it within the next" in each["text"]
        )


@pytest.mark.parametrize("program", deep(list(PROGRAMS)[2:]))
async def test_instrumented_program_alone_opens_the_circuit_of_its_tool_in_every_agent(world, program):
    library, way, convention = PROGRAMS[program]
    circuit = f"held_{library}_{way}"
    world.tool.state = "broken"
    await world.instrumented(program, circuit, FAILURES)
    for agent in world.agents.values():
        await agent.until(circuit, available=False)
    events = [each for each in await world.events_of(circuit) if each["status"] != "rejected"]
    said = ("error", *(("unknown", "status_only") if library == "langfuse" else ("transport", "full")))
    assert [(each["status"], each["error_class"], each["evidence"]) for each in events] == [said] * FAILURES
    assert {each["metadata"]["otlp"] for each in events} == {convention}
    assert {each["service"] for each in events} == {library}


@pytest.mark.deep
async def test_agents_on_a_gateway_keep_the_last_state_while_it_is_away_and_catch_up_when_it_is_back(world):
    on_gateway = {name: agent for name, agent in world.agents.items() if name != "kafka"}
    kafka = world.agents["kafka"]
    world.tool.state = "broken"
    assert (await kafka.call("held_before", FAILURES))["failed"] == FAILURES
    for agent in on_gateway.values():
        await agent.until("held_before", available=False)

    world.gateway.child.kill9()
    assert (await kafka.call("held_meanwhile", FAILURES))["failed"] == FAILURES
    await kafka.until("held_meanwhile", available=False)
    for name, agent in on_gateway.items():
        assert (await agent.call("held_before", away=True))["refused"] == 1, name
        assert (await agent.status("held_meanwhile"))["available"], name

    running = running_gateway(world.settings, world.folder / "gateway-2.log")
    world.gateway = await asyncio.to_thread(world.stack.enter_context, running)
    for name, agent in on_gateway.items():
        await agent.until("held_meanwhile", available=False)
        assert (await agent.call("held_meanwhile"))["refused"] == 1, name
        found = await agent.status("held_before")
        assert (found["available"], found["mode"]) == (False, "fleet"), (name, found)


WITHIN_REQUESTS = """
import { Switchgear } from "@switchgear/client";

const work: Promise<unknown>[] = [];
const gear = new Switchgear({ url: process.argv[2]!, startWaitS: 20, waitUntil: (each) => void work.push(each) });
for (const request of [1, 2]) {
  await gear.call("within_a_request", () => request);
  await Promise.all(work.splice(0));
}
const { mode, emitter } = gear.status();
console.log(mode, emitter?.sent, emitter?.buffered);
"""


@pytest.mark.deep
async def test_typescript_client_without_a_background_reads_circuits_and_sends_its_events_within_requests(world):
    program = await asyncio.to_thread(compiled, "within-requests", WITHIN_REQUESTS)
    command = ["node", str(program), world.gateway.url]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=READY_S, env=environment(), check=False
    )
    assert (done.returncode, done.stdout) == (0, "fleet 2 0\n"), done.stderr
    assert [each["status"] for each in await world.events_of("within_a_request")] == ["success", "success"]
