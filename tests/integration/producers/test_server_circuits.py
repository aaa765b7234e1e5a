"""A server with many tools dies and recovers, in a fleet of real processes."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_stream.inspect import read_circuits
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, all_ended, python, switchgear
from tests.support.shared_tool import SharedTool
from tests.support.waiting import auntil

PROCESSES, TOOLS = 4, 10
SERVER = "mcp:github"
POLICIES = """
[family."mcp:*"]
minimum_number_of_calls = 10
wait_duration_in_open_state_s = 2
permitted_number_of_calls_in_half_open_state = {probes}
success_threshold_to_close = {probes}
"""
CALLER = """
import collections, json, socket, sys, time
from switchgear import BreakerPolicy, Switchgear
from switchgear.policies import PolicySet

port, brokers, prefix, server, tools, broken_port = int(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5]), int(sys.argv[6])
late = BreakerPolicy(consecutive_failures=1_000)  # the process's own circuits leave the decision to the fleet's
gear = Switchgear(brokers, service="caller", topic_prefix=prefix, local_policies=PolicySet(base=late, family_base=late))
gear.start(30)
print("ready", flush=True)
before = None
while True:
    seen = collections.Counter()
    for number in range(tools):
        permit = gear.try_acquire(f"{server}:tool{number}")
        if not permit:
            seen[f"refused by {permit.family}"] += 1
            continue
        with socket.socket() as connection:
            try:
                connection.settimeout(10)
                connection.connect(("127.0.0.1", port if number or not broken_port else broken_port))
                connection.sendall(b"p" if permit.lease_id else b"c")
                if not connection.recv(1):
                    raise ConnectionResetError("no answer")
            except OSError as error:
                seen["failed"] += 1
                permit.failure(error)
            else:
                seen["answered"] += 1
                permit.success()
    if seen != before:
        print(json.dumps(seen), flush=True)
        before = seen
    time.sleep(0.01)
"""


async def all_see(children: list[Child], wanted: dict[str, int], limit_s: float = HAPPEN_S) -> None:
    """Wait until each process's last round of calls ended so."""

    def last(child: Child) -> dict[str, int] | None:
        lines = [line for line in child.output().splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else None

    try:
        async with asyncio.timeout(limit_s):
            while any(last(child) != wanted for child in children):
                assert all(child.alive for child in children), [child.output() for child in children]
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not all see {wanted}, but {[last(child) for child in children]}")


@pytest.mark.deep
@pytest.mark.parametrize("probes", [1, 3])
async def test_a_dead_server_is_refused_in_all_processes_and_gets_exactly_the_permitted_calls_when_it_recovers(
    make_settings, tmp_path, probes
):
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES.format(probes=probes))
    settings = make_settings(policy_file=file)
    async with SharedTool() as server:
        given = (str(server.port), settings.kafka_bootstrap_servers, settings.topic_prefix, SERVER, str(TOOLS), "0")
        worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
        children = [python(CALLER, *given, log=tmp_path / f"caller-{number}.log") for number in range(PROCESSES)]
        with all_ended(worker, *children):
            await asyncio.to_thread(worker.wait_for_output, "ready  ")
            await all_see(children, {"answered": TOOLS})
            for _ in range(2):
                server.die()
                await all_see(children, {f"refused by {SERVER}": TOOLS})
                await asyncio.sleep(3)  # at least one probe of the dead server has failed
                recovery = server.rise(probes)
                await auntil(recovery.over.is_set, HAPPEN_S, lambda: "the probes of the recovered server")
                assert (recovery.probes, recovery.plain) == (probes, 0)
                await all_see(children, {"answered": TOOLS})


async def test_one_broken_tool_is_refused_in_all_processes_and_its_healthy_server_never_is(make_settings, tmp_path):
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES.format(probes=1))
    settings = make_settings(policy_file=file)
    async with SharedTool() as server:
        given = (str(server.port), settings.kafka_bootstrap_servers, settings.topic_prefix, SERVER, str(TOOLS))
        worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
        children = [
            python(CALLER, *given, str(any_free_port()), log=tmp_path / f"caller-{number}.log")
            for number in range(PROCESSES)
        ]
        with all_ended(worker, *children):
            await asyncio.to_thread(worker.wait_for_output, "ready  ")
            await all_see(children, {"answered": TOOLS - 1, "refused by None": 1})
            calls = server.calls
            await asyncio.sleep(8)  # several waits, each with a failed probe
            assert server.calls > calls + 10 * TOOLS
            assert all(child.alive for child in children)
            assert not any(f"refused by {SERVER}" in child.output() for child in children)
            circuits = await read_circuits(settings)
    opened = {
        circuit_id for circuit_id, records in circuits.items() if any(record.state == "open" for record in records)
    }
    assert opened == {f"{SERVER}:tool0"}
