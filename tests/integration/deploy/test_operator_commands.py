"""Operators' commands against a real worker: applied, seen, in force for the time given, and after a restart."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.operate.give import give
from switchgear_cli.operate.in_force import in_force
from switchgear_schemas import BreakerPolicy, Command
from switchgear_stream.inspect import read_circuits
from tests.support.processes import run, switchgear
from tests.support.stream import emit, eventually, version_faults

pytestmark = pytest.mark.integration
WAIT_S = 30.0


@pytest.fixture
def start_worker(tmp_path):
    """``start_worker(settings)``: a worker that is ready; all of them end with the test."""
    started = []

    def start(settings, *options):
        child = switchgear("worker", *options, log=tmp_path / f"worker-{len(started)}.log", settings=settings)
        started.append(child)
        return child.wait_for_output("ready  ")

    yield start
    for child in started:
        child.__exit__()


def _command(tool: str, verb: str, reason: str = "drill", **fields: object) -> Command:
    return Command.model_validate({"tool_name": tool, "verb": verb, "actor": "ada", "reason": reason, **fields})


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def _last(settings, tool: str):
    return (await read_circuits(settings))[tool][-1]


async def test_commands_are_applied_seen_idempotent_and_outlive_the_worker(settings, start_worker):
    worker = start_worker(settings)
    unaware = settings.model_copy(update={"topic_partitions": 12})  # of a person who doesn't know: the broker does
    verbs = {"force_open": "forced_open", "disable": "disabled", "metrics_only": "metrics_only", "close": "closed"}

    for verb, state in verbs.items():
        given = await give(unaware, _command("never-called", verb), wait_s=WAIT_S)
        assert (given.outcome, given.circuit.state) == ("applied", state)
        again = await give(settings, _command("never-called", verb), wait_s=WAIT_S)
        assert (again.outcome, again.circuit) == ("unchanged", given.circuit)
    assert (await give(settings, _command("never-called", "reset"), wait_s=WAIT_S)).outcome == "applied"
    assert (await give(settings, _command("never-called", "auto"), wait_s=WAIT_S)).outcome == "unchanged"

    # Together: the log's order decides, and each is seen although the other came right behind it.
    both = await asyncio.gather(
        give(settings, _command("contended", "force_open", "one"), wait_s=WAIT_S),
        give(settings, _command("contended", "disable", "two"), wait_s=WAIT_S),
    )
    assert [given.outcome for given in both] == ["applied", "applied"]
    last = max(both, key=lambda given: given.circuit.version)
    assert await _last(settings, "contended") == last.circuit

    # A circuit that the policy does not count by is refused, with the reason.
    refused = await give(settings, _command("scoped", "force_open", circuit_id="scoped|user=u1"), wait_s=WAIT_S)
    assert (refused.outcome, refused.done) == ("refused", False)
    assert "the policy's scope is tool" in refused.reason

    # For a time, and a policy by glob: both are there after the worker was killed and another took over.
    await give(settings, _command("timed", "disable", until=_in(1.0)), wait_s=WAIT_S)
    policy = BreakerPolicy(consecutive_failures=1, minimum_reporters=1)
    by_glob = await give(settings, _command("mcp:*", "set_policy", policy=policy), wait_s=WAIT_S)
    assert (by_glob.outcome, by_glob.reason) == ("applied", "by the owners of all 4 partitions")
    own = _command("mcp:new", "set_policy", policy=BreakerPolicy(fallback=("backup",)))
    assert (await give(settings, own, wait_s=WAIT_S)).outcome == "applied"
    shown = await in_force(unaware, PolicySet.load(None).explain("mcp:new"))
    assert (shown.policy.consecutive_failures, shown.policy.fallback) == (1, ("backup",))
    assert shown.sources["consecutive_failures"] == "policy set mcp:*"
    assert shown.sources["fallback"] == "policy set mcp:new"
    assert shown.sources["cusum.broken_failure_rate"] == "built-in default"
    await give(settings, _command("pinned", "force_open"), wait_s=WAIT_S)
    worker.terminate()
    start_worker(settings)

    await emit(settings, [{"tool_name": tool, "status": "error"} for tool in ("mcp:new", "timed", "pinned", "other")])

    async def settled():
        found = {name: records[-1] for name, records in (await read_circuits(settings)).items()}
        return found if "mcp:new" in found and found["timed"].state == "closed" else None

    found = await eventually(settled, what="the policy applied and the time over")
    assert found["mcp:new"].state == "open"
    assert (found["timed"].cause.actor, found["timed"].cause.reason) == ("ada", "the time given is over")
    assert found["pinned"].state == "forced_open"
    assert "other" not in found
    assert all(version_faults(records) == [] for records in (await read_circuits(settings)).values())


async def test_open_for_a_while_then_a_probe_closes_and_the_command_line_says_what_it_did(settings, start_worker):
    nobody = await asyncio.to_thread(run, "open", "search", "--timeout", "0.5", settings=settings)
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "no worker runs" in nobody.stderr
    assert "applied as soon as one reads it" in nobody.stderr

    start_worker(settings)
    opened = await asyncio.to_thread(
        run, "open", "search", "--for", "1s", "--reason", "drill", "--json", "--timeout", "30", settings=settings
    )
    assert opened.returncode == 0, opened.stderr
    answer = json.loads(opened.stdout)
    assert (answer["outcome"], answer["circuit"]["state"]) == ("applied", "open")
    assert answer["circuit"]["cause"]["actor"].count("@") == 1

    async def probing():
        await emit(
            settings,
            [{"tool_name": "search", "status": "rejected", "probe_requested": True, "emitter_id": "a"}],
        )
        last = await _last(settings, "search")
        return last if last.state == "half_open" else None

    half_open = await eventually(probing, what="half-open")
    (lease,) = half_open.leases
    probe = {"lease_id": lease.lease_id, "generation": half_open.generation, "emitter_id": "a"}
    await emit(settings, [{"tool_name": "search", "status": "success", **probe}])

    async def closed():
        return (await _last(settings, "search")).state == "closed"

    await eventually(closed, what="closed")
