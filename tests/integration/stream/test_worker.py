"""A worker and a real broker, from executions to circuit records."""

from __future__ import annotations

import json

import pytest

from switchgear_schemas import BreakerPolicy
from switchgear_stream.inspect import read_circuits, read_rows, totals
from tests.support.stream import command, dead_letters, emit, eventually, get, metric, send, version_faults


@pytest.fixture
def quick(make_settings, tmp_path):
    """Return settings with a policy that waits for one second."""
    file = tmp_path / "policies.toml"
    file.write_text("[default]\nconsecutive_failures = 5\nwait_duration_in_open_state_s = 1\nminimum_reporters = 1\n")
    return make_settings(policy_file=file)


async def test_a_failing_tool_opens_is_probed_by_one_lease_and_closes(quick, start_worker):
    worker = start_worker(quick)
    await emit(quick, [{"tool_name": "search", "status": "error", "error_type": "E", "emitter_id": "a"}] * 5)

    async def records(state: str):
        found = (await read_circuits(quick)).get("search", [])
        return [record for record in found if record.state == state]

    (opened,) = await eventually(lambda: records("open"), what="open")
    assert (opened.version, opened.generation, opened.counts.total_failed) == (1, 1, 5)
    asking = {"tool_name": "search", "status": "rejected", "probe_requested": True}

    async def leased():
        await emit(quick, [asking | {"emitter_id": name} for name in ("a", "b", "c")])
        return await records("half_open")

    (half_open,) = await eventually(leased, what="half-open")
    (lease,) = half_open.leases
    await emit(
        quick,
        [
            {
                "tool_name": "search",
                "status": "success",
                "emitter_id": lease.emitter_id,
                "lease_id": lease.lease_id,
                "generation": half_open.generation,
            }
        ],
    )
    await eventually(lambda: records("closed"), what="closed")
    assert version_faults((await read_circuits(quick))["search"]) == []
    assert get(worker, "/healthz")[0] == 200
    assert get(worker, "/readyz")[0] == 200
    assert metric(worker, 'switchgear_worker_circuit_records_total{state="half_open"}') == 1
    assert worker.terminate() == 0


async def test_a_poisoned_topic_loses_no_good_event_and_reports_each_bad_one(settings, start_worker):
    good = json.dumps({"tool_name": "search", "status": "success"}).encode()
    bad = {
        "not JSON": b"hello",
        "wrong types": b'{"tool_name":1,"status":"error"}',
        "empty": b"",
        "tombstone": None,
        "two megabytes": json.dumps(
            {"tool_name": "search", "status": "error", "error_message": "x" * 2_000_000}
        ).encode(),
        "missing fields": b'{"tool_name":"search"}',
        "year 1970": b'{"tool_name":"search","status":"error","recorded_at":"1970-01-01T00:00:00Z"}',
        "year 2200": b'{"tool_name":"search","status":"error","recorded_at":"2200-01-01T00:00:00Z"}',
        "cut off": good[:-1],
        "binary": bytes(range(256)),
    }
    messages: list[tuple[bytes | None, bytes | None, int | None]] = []
    for number, value in enumerate(bad.values()):
        key = None if number % 2 and value is not None else b"search"
        messages += [(b"search", good, None), (key, value, None), (None, good, number % 4)]
    worker = start_worker(settings)
    await send(settings, settings.topics.executions, messages)

    async def counted():
        rows = await read_rows(settings)
        return totals(rows)["total_calls"] >= 2 * len(bad) and rows

    rows = await eventually(counted)
    assert totals(rows)["total_calls"] == 2 * len(bad)
    letters = {letter.key: letter for letter in await dead_letters(settings)}
    assert len(letters) == len(bad)
    assert sorted(letter.value or b"" for letter in letters.values()) == sorted(value or b"" for value in bad.values())
    assert all(letter.reason for letter in letters.values())
    assert metric(worker, "switchgear_worker_rekeyed_total") >= 1
    assert worker.alive


async def test_commands_reach_the_circuit_of_their_tool(settings, start_worker):
    start_worker(settings)
    await command(settings, "search", "force_open", reason="drill")
    await command(settings, "search", "close", reason="over")
    await command(settings, "search", "set_policy", policy=BreakerPolicy(consecutive_failures=1, fallback=("backup",)))

    async def three():
        found = (await read_circuits(settings)).get("search", [])
        return len(found) == 3 and found

    forced, closed, changed = await eventually(three)
    assert (forced.state, forced.cause.actor, forced.cause.reason) == ("forced_open", "ada", "drill")
    assert closed.state == "closed"
    assert changed.fallback == ("backup",)
    await emit(settings, [{"tool_name": "search", "status": "timeout"}])

    async def opened():
        return (await read_circuits(settings))["search"][-1].state == "open"

    await eventually(opened)


async def test_a_restarted_worker_goes_on_where_it_stopped(settings, start_worker):
    first = start_worker(settings)
    await command(settings, "search", "force_open")
    await emit(settings, [{"tool_name": "search", "status": "success"}] * 10)

    async def counted(calls: int):
        rows = await read_rows(settings)
        return "search" in rows and rows["search"].total_calls == calls

    await eventually(lambda: counted(10))
    assert first.terminate() == 0
    await emit(settings, [{"tool_name": "search", "status": "success"}] * 10)
    second = start_worker(settings)
    await eventually(lambda: counted(20))
    await command(settings, "search", "close")

    async def closed():
        return [record.version for record in (await read_circuits(settings))["search"]] == [1, 2]

    await eventually(closed)
    assert metric(second, "switchgear_worker_duplicates_total") == 0
