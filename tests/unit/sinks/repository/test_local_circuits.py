"""The circuits that processes opened on their own evidence, found by what they refused and what they let through later."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import CircuitsRepository
from switchgear_sinks.repository.queries import microseconds
from tests.bench.queries_plan import Recording, readings
from tests.support.engine import call, store_calls

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=10)
CAUSE = {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5, "failed": 5}


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def refusal(seconds=-30.0, tool="search", *, refused=1, by="local", emitter_id="p1", service="planner", **fields):
    """As the guard sends it."""
    circuit = {
        name: fields.pop(name)
        for name in ("state", "scope", "retry_after_s", "cause", "last_error")
        if name in fields
    }  # fmt: skip
    metadata = {"refused": refused, "refused_by": by, "state": "open", "scope": "tool", **circuit}
    given = {"served_by": "none", "emitter_id": emitter_id, "service": service, "metadata": metadata} | fields
    return call(tool, "rejected", at(seconds), **given)


def made(seconds, status="success", tool="search", **fields):
    return call(tool, status, at(seconds), **({"emitter_id": "p1", "service": "planner"} | fields))


@pytest.fixture
def found(store):
    """``found(call, …)`` stores the calls and gives the local circuits of the last ten minutes, by tool, service and scope."""
    repository = CircuitsRepository(store)

    async def stored(*calls, tool=None):
        await store_calls(store, calls)
        circuits = await repository.local(SINCE, tool)
        return {(each["tool_name"], each["service"], each["scope"]): each for each in circuits}

    return stored


async def test_refusals_of_a_local_circuit_are_one_entry(found):
    circuits = await found(
        refusal(-50, refused=1, retry_after_s=60.0, cause=CAUSE, last_error="ConnectionError: no"),
        refusal(-40, refused=37, retry_after_s=50.5, cause=CAUSE, last_error="ConnectionError: down"),
    )
    (circuit,) = circuits.values()
    assert circuit["cause"].items() >= CAUSE.items()
    assert {name: value for name, value in circuit.items() if name != "cause"} == {
        "tool_name": "search", "service": "planner", "scope": "tool", "state": "open", "processes": 1, "since": at(-50),
        "last_refusal_at": at(-40), "refusals": 38, "open_until": at(10.5), "last_error": "ConnectionError: down",
    }  # fmt: skip


@pytest.mark.parametrize("by", ["fleet", "session", "duplicate"])
async def test_refusals_of_the_fleets_circuit_or_a_limit_are_not_local_circuits(found, by):
    assert await found(refusal(by=by)) == {}


async def test_processes_of_a_service_are_counted_and_services_are_apart(found):
    circuits = await found(
        refusal(-9, emitter_id="p1"),
        refusal(-8, emitter_id="p2"),
        refusal(-7, emitter_id="p2"),
        refusal(-1, emitter_id="p3", service="coder"),
    )
    assert [(key, each["processes"], each["refusals"]) for key, each in circuits.items()] == [
        (("search", "coder", "tool"), 1, 1),
        (("search", "planner", "tool"), 2, 3),
    ]


async def test_a_later_answered_call_of_the_same_process_shows_that_the_circuit_has_closed(found):
    assert await found(refusal(-30), made(-5)) == {}


@pytest.mark.parametrize("error_class", ["tool", "invalid_input"])
async def test_caller_error_shows_that_a_local_circuit_has_closed(found, error_class):
    assert await found(refusal(-30), made(-5, "error", error_class=error_class)) == {}


@pytest.mark.parametrize(
    "later",
    [
        made(-5, emitter_id="p2"),
        made(-5, tool="other"),
        made(-5, "error", error_class="transport"),
        made(-5, "timeout"),
        made(-31),
        made(-5, served_by="cache"),
        made(-5, error_class="policy"),
        made(-5, execution_time_ms=26_000),
    ],
    ids=[
        "another process", "another tool", "a failed probe", "a timeout", "an earlier call", "a kept result", "a success that its caller ignores",
        "a call that began before the refusal",
    ],
)  # fmt: skip
async def test_only_an_answered_call_shows_that_a_local_circuit_has_closed(found, later):
    circuits = await found(refusal(-30), later)
    assert set(circuits) == {("search", "planner", "tool")}


async def test_local_circuit_that_opened_again_has_only_its_latest_refusals(found):
    circuits = await found(refusal(-300, refused=70), made(-200), refusal(-20), refusal(-10, refused=4))
    circuit = circuits["search", "planner", "tool"]
    assert (circuit["since"], circuit["refusals"]) == (at(-20), 5)


async def test_recovered_process_leaves_the_local_circuits_of_the_others(found):
    circuits = await found(refusal(-30, emitter_id="p1"), refusal(-20, emitter_id="p2"), made(-5, emitter_id="p1"))
    circuit = circuits["search", "planner", "tool"]
    assert (circuit["processes"], circuit["since"]) == (1, at(-20))


async def test_a_process_that_has_not_refused_for_ten_minutes_is_left_out(found):
    assert await found(refusal(-601)) == {}
    assert await found(refusal(-599))


async def test_local_circuits_can_be_narrowed_to_one_tool(found):
    circuits = await found(refusal(tool="a"), refusal(tool="b"), tool="b")
    assert set(circuits) == {("b", "planner", "tool")}


async def test_a_sessions_circuit_closes_by_a_call_of_that_session_alone(found):
    mine = {"scope": "session", "session_id": "s1"}
    assert set(await found(refusal(-30, **mine), made(-5, session_id="s2"), made(-4))) == {
        ("search", "planner", "session")
    }
    assert await found(made(-3, session_id="s1")) == {}


async def test_a_users_circuit_closes_by_a_call_for_that_user_alone(found):
    mine = {"scope": "user", "user_id": "ana"}
    assert set(await found(refusal(-30, **mine), made(-5, user_id="bob"))) == {("search", "planner", "user")}
    assert await found(made(-3, user_id="ana")) == {}


async def test_circuits_of_many_users_are_one_entry_beside_the_tools_own(found):
    users = [refusal(-30 + n, scope="user", user_id=f"u{n}") for n in range(20)]
    circuits = await found(*users, refusal(-1))
    assert {scope: each["refusals"] for (_, _, scope), each in circuits.items()} == {"tool": 1, "user": 20}


async def test_a_forced_or_half_open_circuit_of_a_process_says_so(found):
    circuits = await found(
        refusal(tool="a", state="half_open"),
        refusal(tool="b", state="forced_open", cause={"rule": "policy", "reason": "mode forced_open"}),
    )
    assert {name: each["state"] for (name, _, _), each in circuits.items()} == {"a": "half_open", "b": "forced_open"}
    assert circuits["b", "planner", "tool"]["open_until"] is None


async def test_refusal_of_another_producer_without_a_generation_is_a_local_circuit(found):
    circuits = await found(
        call("alone", "rejected", at(-3), emitter_id="go-1", service="go"),
        call("follows", "rejected", at(-3), emitter_id="go-1", service="go", generation=4),
    )
    assert set(circuits) == {("alone", "go", "tool")}
    circuit = circuits["alone", "go", "tool"]
    assert (circuit["refusals"], circuit["cause"], circuit["open_until"], circuit["state"]) == (1, None, None, "open")


async def test_a_sum_that_an_older_guard_sent_without_its_source_is_left_out(found):
    assert await found(refusal() | {"metadata": {"refused": 9}}) == {}


@pytest.mark.parametrize(
    "metadata",
    [
        {"state": "\x1b[2J", "scope": "galaxy", "cause": "down", "retry_after_s": "soon"},
        {"state": 7, "scope": None, "cause": {"rule": {"a": 1}}, "retry_after_s": -5, "refused": 1},
        {"cause": {"rule": "x", "value": "many"}, "retry_after_s": 1e300},
    ],
)
async def test_local_circuits_tolerate_metadata_of_another_shape(found, metadata):
    circuits = await found(refusal() | {"metadata": {"refused_by": "local"} | metadata})
    circuit = circuits["search", "planner", "tool"]
    assert (circuit["state"], circuit["cause"], circuit["refusals"]) == ("open", None, 1)


async def test_local_circuits_read_only_calls_of_tools_that_refuse(store, found):
    many = """
        INSERT INTO tool_metrics (tool_name, status, emitter_id, recorded_at)
        SELECT concat('tool ', toString(number % 40)), 'success', 'p1', fromUnixTimestamp64Micro({now:Int64}, 'UTC') - toIntervalSecond(number % 3600)
        FROM numbers(400000)
    """
    await store.command(many, {"now": microseconds(NOW)})
    await store.command("OPTIMIZE TABLE tool_metrics FINAL")
    assert set(await found(refusal(tool="tool 7", seconds=-1))) == {("tool 7", "planner", "tool")}
    client = Recording(store)
    await CircuitsRepository(client).local(SINCE)
    plans = [each for sql, parameters in client.seen for each in await readings(store, sql, parameters)]
    read = [each for each in plans if each.table == "tool_metrics"]
    assert read
    assert all(each.selected <= 0.15 * each.total for each in read), [str(each) for each in read]


async def test_local_circuits_read_only_the_counts_if_no_tool_refuses(store, found):
    await found(made(-5))
    client = Recording(store)
    assert await CircuitsRepository(client).local(SINCE) == []
    assert ["tool_counts_1m" in sql for sql, _ in client.seen] == [True]


def of_family(seconds, tool, **fields):
    """As the guard sends it when the process's own circuit of a server refuses."""
    event = refusal(seconds, tool, scope="family", **fields)
    event["metadata"]["family"] = "mcp:github"
    return event


async def test_a_server_that_a_process_cannot_reach_is_one_entry_for_all_its_tools(found):
    circuits = await found(*(of_family(-60 + number, f"mcp:github:tool{number}") for number in range(9)))
    (circuit,) = circuits.values()
    assert (circuit["tool_name"], circuit["scope"], circuit["refusals"]) == ("mcp:github", "family", 9)


async def test_an_answer_of_one_tool_ends_the_entry_of_its_server(found):
    refused = [of_family(-60 + number, f"mcp:github:tool{number}") for number in range(9)]
    assert await found(*refused, made(-30, tool="mcp:github:tool3")) == {}


async def test_the_answer_of_a_tool_to_another_process_leaves_the_entry_of_its_server(found):
    circuits = await found(
        of_family(-60, "mcp:github:a"), made(-30, tool="mcp:github:a", emitter_id="p2"), made(-40, tool="search")
    )
    assert circuits.keys() == {("mcp:github", "planner", "family")}
