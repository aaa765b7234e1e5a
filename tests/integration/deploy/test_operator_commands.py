"""Operators' commands against a real worker: applied, seen, in force for the time given, and after a restart."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from switchgear.fleet.rows import Row
from switchgear.policies import PolicySet
from switchgear_api.operate.policy_in_force import in_force
from switchgear_api.operate.send_command import send_command
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.partitioner import partition_of
from switchgear_stream.inspect import read_circuits, read_rows
from tests.support.limits import HAPPEN_S
from tests.support.processes import run, switchgear
from tests.support.sinking import Message, produce
from tests.support.stream import emit, eventually, version_faults

WAIT_S = HAPPEN_S


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
    return Command.from_dict({"tool_name": tool, "verb": verb, "actor": "ada", "reason": reason, **fields})


async def send_one(settings, command, *, wait_s):
    """One command."""
    (given,) = await send_command(settings, [command], wait_s=wait_s)
    return given


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def _last(settings, tool: str):
    return (await read_circuits(settings))[tool][-1]


async def test_commands_are_applied_seen_idempotent_and_outlive_the_worker(settings, start_worker):
    worker = start_worker(settings)
    unaware = settings.model_copy(update={"topic_partitions": 12})  # of a person who doesn't know: the broker does
    verbs = {"force_open": "forced_open", "disable": "disabled", "metrics_only": "metrics_only", "close": "closed"}

    for verb, state in verbs.items():
        given = await send_one(unaware, _command("never-called", verb), wait_s=WAIT_S)
        assert (given.outcome, given.circuit.state) == ("applied", state)
        again = await send_one(settings, _command("never-called", verb), wait_s=WAIT_S)
        assert (again.outcome, again.circuit) == ("unchanged", given.circuit)
    assert (await send_one(settings, _command("never-called", "reset"), wait_s=WAIT_S)).outcome == "applied"
    assert (await send_one(settings, _command("never-called", "auto"), wait_s=WAIT_S)).outcome == "unchanged"

    # Together: the log's order decides, and each is seen although the other came right behind it.
    both = await asyncio.gather(
        send_one(settings, _command("contended", "force_open", "one"), wait_s=WAIT_S),
        send_one(settings, _command("contended", "disable", "two"), wait_s=WAIT_S),
    )
    assert [given.outcome for given in both] == ["applied", "applied"]
    last = max(both, key=lambda given: given.circuit.version)
    assert await _last(settings, "contended") == last.circuit

    # A circuit that the policy does not count by is refused, with the reason.
    refused = await send_one(settings, _command("scoped", "force_open", circuit_id="scoped|user=u1"), wait_s=WAIT_S)
    assert (refused.outcome, refused.done) == ("refused", False)
    assert "the policy's scope is tool" in refused.reason

    # For a time, and a policy by glob: both are there after the worker was killed and another took over.
    await send_one(settings, _command("timed", "disable", until=_in(1.0)), wait_s=WAIT_S)
    policy = BreakerPolicy(consecutive_failures=1, minimum_reporters=1)
    by_glob = await send_one(settings, _command("mcp:*", "set_policy", policy=policy), wait_s=WAIT_S)
    assert (by_glob.outcome, by_glob.reason) == ("applied", "by the owners of all 4 partitions")
    own = _command("mcp:new", "set_policy", policy=BreakerPolicy(fallback=("backup",)))
    assert (await send_one(settings, own, wait_s=WAIT_S)).outcome == "applied"
    shown = await in_force(unaware, PolicySet.load(None).explain("mcp:new"))
    assert (shown.policy.consecutive_failures, shown.policy.fallback) == (1, ("backup",))
    assert shown.sources["consecutive_failures"] == "policy set mcp:*"
    assert shown.sources["fallback"] == "policy set mcp:new"
    assert shown.sources["cusum.broken_failure_rate"] == "built-in default"
    await send_one(settings, _command("pinned", "force_open"), wait_s=WAIT_S)
    worker.terminate()
    start_worker(settings)

    await emit(settings, [{"tool_name": tool, "status": "error"} for tool in ("mcp:new", "timed", "pinned", "other")])

    async def settled():
        found = {name: records[-1] for name, records in (await read_circuits(settings)).items()}
        opened = "mcp:new" in found and found["mcp:new"].state == "open"
        return found if opened and found["timed"].state == "closed" else None

    found = await eventually(settled, what="the policy applied and the time over")
    assert found["mcp:new"].state == "open"
    assert (found["timed"].cause.actor, found["timed"].cause.reason) == ("ada", "the time given is over")
    assert found["pinned"].state == "forced_open"
    assert "other" not in found
    assert all(version_faults(records) == [] for records in (await read_circuits(settings)).values())


async def test_open_for_a_while_then_a_probe_closes_and_the_command_line_says_what_it_did(settings, start_worker):
    unconfirmed = await asyncio.to_thread(run, "open", "search", "--create", "--timeout", "0.5", settings=settings)
    assert (unconfirmed.returncode, unconfirmed.stdout) == (1, "")
    assert "no worker runs" in unconfirmed.stderr
    assert "applied as soon as one reads it" in unconfirmed.stderr

    start_worker(settings)
    await _in_rows(settings, "search")
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


async def _known(settings, *tools: str) -> None:
    """Calls of the tools, and the worker has rows of them."""
    await emit(settings, [{"tool_name": tool, "status": "success"} for tool in tools])
    await _in_rows(settings, *tools)


async def _in_rows(settings, *tools: str) -> None:
    async def there():
        return set(tools) <= set((await read_rows(settings)).keys())

    await eventually(there, what="rows of all tools")


def _ask(settings, *arguments: str):
    """Run one command, off the event loop."""
    return asyncio.to_thread(run, *arguments, settings=settings)


async def test_a_glob_commands_the_known_tools_that_it_matches_and_none_of_its_own_name(settings, start_worker):
    start_worker(settings)
    await _known(settings, "mcp:weather:now", "mcp:weather:alerts", "mcp:maps:route")

    unasked = await _ask(settings, "open", "mcp:weather:*")
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert "mcp:weather:alerts  closed" in unasked.stderr
    assert "mcp:weather:now     closed" in unasked.stderr
    assert "mcp:maps" not in unasked.stderr
    assert "Nothing was sent. Add --yes to open 2 tools." in unasked.stderr
    assert await read_circuits(settings) == {}

    opened = await _ask(settings, "open", "mcp:weather:*", "--yes", "--reason", "drill", "--timeout", "30", "--json")
    assert opened.returncode == 0, opened.stderr
    answers = [json.loads(line) for line in opened.stdout.splitlines()]
    assert [(answer["tool_name"], answer["circuit"]["state"]) for answer in answers] == [
        ("mcp:weather:alerts", "forced_open"),
        ("mcp:weather:now", "forced_open"),
    ]
    assert set(await read_circuits(settings)) == {"mcp:weather:now", "mcp:weather:alerts"}

    again = await _ask(settings, "open", "mcp:*", "--yes", "--reason", "drill", "--timeout", "30")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("forced open already; nothing changed") == 2
    assert "mcp:maps:route: forced open, version 1" in again.stdout

    several = await _ask(settings, "auto", "mcp:maps:route", "mcp:weather:now", "--timeout", "30")
    assert several.returncode == 0, several.stderr
    assert several.stdout.count(": closed, version 2") == 2


async def test_garbage_in_the_changelog_keeps_an_operator_from_no_command(settings, start_worker):
    start_worker(settings)
    await _known(settings, "mcp:maps:route")
    here = partition_of("mcp:maps:route", settings.topic_partitions)
    ahead = Row(circuit_id="mcp:maps:route", tool_name="mcp:maps:route", applied=99, clock=1e300).encode()
    garbage = [
        Message(b"junk", b"\xff\xfe", partition=here),
        Message(ahead, b"mcp:maps:route", partition=here),
        Message(b"", b"mcp:maps:route", partition=here),
        Message(bytes(3_000_000), b"elsewhere", partition=here),
    ]
    await produce(settings, garbage, settings.topics.changelog)

    opened = await _ask(settings, "open", "mcp:maps:*", "--yes", "--reason", "drill", "--timeout", "30")
    assert opened.returncode == 0, opened.stderr
    assert "mcp:maps:route: forced open, version 1" in opened.stdout


@pytest.mark.deep
async def test_a_name_that_nothing_knows_is_not_commanded_without_create(settings, start_worker):
    start_worker(settings)
    await _known(settings, "mcp:weather:now")
    for line in (
        ["open", "mcp:wether:now"],
        ["close", "mcp:wether:now"],
        ["policy", "set", "mcp:wether:now", "jitter=0.5"],
    ):
        refused = await _ask(settings, *line)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "knows 'mcp:wether:now' (did you mean mcp:weather:now?)" in refused.stderr
    nothing = await _ask(settings, "open", "nothing:*", "--yes")
    assert nothing.returncode == 2
    assert "'nothing:*' matches no known tool. Known tools: mcp:weather:now." in nothing.stderr
    unset = await _ask(settings, "policy", "clear", "nosuch")
    assert (unset.returncode, unset.stdout) == (1, "")
    assert "Nothing is set for 'nosuch'" in unset.stderr
    assert (await read_circuits(settings), set(await read_rows(settings))) == (
        {},
        {"mcp:weather:now", "mcp:weather|family"},
    )

    # Taking back what does not stand makes nothing either, not even of a name that is said to be right.
    closed = await _ask(settings, "close", "nosuch", "--create", "--timeout", "30")
    assert (closed.returncode, closed.stdout) == (0, "nosuch: closed already; nothing changed.\n")
    assert set(await read_rows(settings)) == {"mcp:weather:now", "mcp:weather|family"}

    created = await _ask(settings, "open", "mcp:new", "--create", "--timeout", "30")
    assert created.returncode == 0, created.stderr
    assert set(await read_circuits(settings)) == {"mcp:new"}
    known = await _ask(settings, "auto", "mcp:new", "--timeout", "30")
    assert known.returncode == 0, known.stderr


async def test_policies_are_cleared_by_the_name_or_glob_that_they_were_set_for(settings, start_worker):
    start_worker(settings)
    await _known(settings, "mcp:a")
    for name in ("mcp:a", "mcp:*"):
        done = await _ask(settings, "policy", "set", name, "jitter=0.5", "--timeout", "30")
        assert done.returncode == 0, done.stderr
    other = await _ask(settings, "policy", "clear", "mcp:?")
    assert other.returncode == 1
    assert "Values are set for mcp:a, mcp:*." in other.stderr  # the nearest first
    for name in ("mcp:a", "mcp:*"):
        done = await _ask(settings, "policy", "clear", name, "--timeout", "30")
        assert (done.returncode, "what was set is taken back" in done.stdout) == (0, True), done.stderr
        again = await _ask(settings, "policy", "clear", name, "--timeout", "30")
        assert again.returncode == 1


async def test_a_policy_that_waits_to_be_read_can_be_cleared(settings, start_worker):
    await _ask(settings, "policy", "set", "mcp:*", "jitter=0.5", "--no-wait")
    cleared = await _ask(settings, "policy", "clear", "mcp:*", "--no-wait")
    assert cleared.returncode == 0, cleared.stderr
    start_worker(settings)
    await _known(settings, "mcp:a")
    shown = await in_force(settings, PolicySet.load(None).explain("mcp:a"))
    assert shown.sources["jitter"] == "built-in default"


@pytest.mark.deep
async def test_a_users_circuit_is_commanded_where_it_exists_unless_it_is_to_be_created(
    settings, start_worker, tmp_path
):
    file = tmp_path / "policies.toml"
    file.write_text('[default]\nscope = "user"\n')
    start_worker(settings, "--policy-file", str(file))
    calls = [("mcp:a", "u1"), ("mcp:b", "u1"), ("mcp:b", "u2")]
    await emit(settings, [{"tool_name": tool, "status": "success", "user_id": user} for tool, user in calls])

    async def there():
        return "mcp:b|user=u2" in await read_rows(settings)

    await eventually(there, what="rows of all users")
    unknown = await _ask(settings, "open", "mcp:a", "--user", "u2")
    assert unknown.returncode == 2
    assert "knows 'mcp:a|user=u2' (did you mean mcp:" in unknown.stderr
    opened = await _ask(settings, "open", "mcp:*", "--user", "u2", "--yes", "--timeout", "30")
    assert (opened.returncode, opened.stdout.count("\n")) == (0, 1), opened.stderr
    assert opened.stdout.startswith("mcp:b|user=u2: forced open")
    created = await _ask(settings, "open", "mcp:a", "--user", "u2", "--create", "--timeout", "30")
    assert created.stdout.startswith("mcp:a|user=u2: forced open"), created.stderr


async def test_of_several_tools_each_outcome_is_printed_and_one_failure_is_exit_code_1(settings, start_worker):
    start_worker(settings)
    await _known(settings, "a", "b")
    done = await _ask(settings, "open", "a", "b", "--session", "s1", "--create", "--timeout", "30")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("the worker refused it: the policy's scope is tool") == 2


@pytest.mark.deep
async def test_a_thousand_tools_are_commanded_and_confirmed_together(settings, start_worker):
    start_worker(settings)
    tools = [f"mcp:many:{number}" for number in range(1_000)]
    await _known(settings, *tools)
    began = time.monotonic()
    done = await _ask(settings, "disable", "mcp:many:*", "--yes", "--timeout", "60")
    assert (done.returncode, done.stdout.count(": disabled, version 1")) == (0, 1_000), done.stderr
    assert time.monotonic() - began < 60
    assert len(await read_circuits(settings)) == 1_000
