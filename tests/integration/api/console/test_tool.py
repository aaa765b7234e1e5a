"""The pages of a tool, of calls and of the timeline over the real engine, checked against plain SQL over ``tool_metrics``."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Database
from tests.support.engine import call, emptied, store_calls, store_circuits

TOOL = "mcp:github:search"
HOURS = 6


def rows_of(now):
    rows = []
    for number in range(180):
        at = now - timedelta(minutes=2 * number, seconds=number % 50)
        failed = number % 3 == 0
        rows.append(
            call(TOOL, "error" if failed else "success", at=at, execution_time_ms=10 + number, service=f"svc{number % 2}",
                 emitter_id=f"host-{number % 3}", session_id=f"s{number % 4}", user_id=f"u{number % 5}", input_tokens=number,
                 cost_usd=0.5, **({"error_class": "server", "error_type": "HTTPError", "error_message": f"status 50{number % 2} at 10.0.0.{number}"}
                                  if failed else {}))
        )  # fmt: skip
    rows.append(call(TOOL, "rejected", at=now - timedelta(seconds=1), metadata={"refused": 4, "refused_by": "fleet"}))
    return rows


def circuits_of(now):
    cause, ends = Cause(rule="consecutive_failures", value=3, threshold=3, sample=3), now - timedelta(hours=1)
    command = Cause(rule="command", actor="ops@example.com", reason="maintenance")
    at = [now - timedelta(hours=20), now - timedelta(hours=7), ends, now - timedelta(minutes=30)]
    common = {"circuit_id": TOOL, "tool_name": TOOL, "family": "mcp:github"}
    return [
        Circuit(**common, state="closed", version=1, generation=1, changed_at=at[0]),
        Circuit(**common, state="open", previous_state="closed", version=2, generation=2, cause=cause, changed_at=at[1]),
        Circuit(**common, state="closed", previous_state="open", version=3, generation=3, changed_at=at[2],
                cause=Cause(rule="probe_succeeded", value=1, sample=1)),
        Circuit(**common, state="forced_open", previous_state="closed", version=4, generation=4, cause=command, changed_at=at[3]),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def stored(engine):
    store, now = emptied(engine), datetime.now(UTC)

    async def fill():
        await store_calls(store, rows_of(now))
        await store_circuits(store, circuits_of(now))

    asyncio.run(fill())
    return store


@pytest.fixture
def get(stored):
    app = create_app(stored, Settings(), registry=CollectorRegistry())

    async def send(path, **parameters):
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get(path, params=parameters)

    return send


async def test_series_of_a_tool_is_that_of_plain_sql_step_by_step(stored, get):
    answer = (await get(f"/v1/console/tool/{TOOL}", hours=HOURS)).json()
    series = answer["series"]
    starts = [datetime.fromisoformat(each) for each in series["at"]]
    rows = await Database(stored).rows(
        "SELECT recorded_at AS at, status, execution_time_ms AS ms FROM tool_metrics WHERE tool_name = {tool:String}",
        {"tool": TOOL},
    )
    step = timedelta(seconds=series["step_s"])
    for place, start in enumerate(starts):
        within = [row for row in rows if start <= row["at"] < start + step]
        made = [row for row in within if row["status"] != "rejected"]
        assert series["calls"][place] == len(made)
        assert series["errors"][place] == sum(row["status"] == "error" for row in made)
        assert series["refused"][place] == 4 * (len(within) - len(made))
        assert (series["p50_ms"][place] is None) == (not made)
        if made:
            assert min(row["ms"] for row in made) <= series["p50_ms"][place] <= max(row["ms"] for row in made)
    assert sum(series["calls"]) > 170


async def test_long_series_from_the_rollups_has_the_same_totals_as_the_raw_rows(stored, get):
    series = (await get(f"/v1/console/tool/{TOOL}", hours=48)).json()["series"]
    assert series["step_s"] % 900 == 0
    assert (sum(series["calls"]), sum(series["errors"]), sum(series["refused"])) == (180, 60, 4)
    assert any(each is not None for each in series["p95_ms"])


async def test_states_cover_the_period_without_gaps_and_say_why(get):
    answer = (await get(f"/v1/console/tool/{TOOL}", hours=HOURS)).json()
    states = answer["states"]
    assert [each["state"] for each in states] == ["open", "closed", "forced_open"]
    assert states[0]["at"] == answer["since"]
    assert states[-1]["until"] == answer["checked_at"]
    assert all(before["until"] == after["at"] for before, after in pairwise(states))
    assert states[0]["why"].startswith("3 calls in a row failed")
    assert states[2]["why"] == "Forced open by ops@example.com: maintenance."


async def test_errors_are_grouped_by_their_text_without_numbers(stored, get):
    answer = (await get(f"/v1/console/tool/{TOOL}", hours=HOURS)).json()
    (group,) = answer["errors"]
    (plain,) = await Database(stored).rows(
        "SELECT count() AS n FROM tool_metrics WHERE status = 'error' AND recorded_at >= {since:DateTime64(6)}",
        {"since": datetime.fromisoformat(answer["since"])},
    )
    assert (group["template"], group["class"], group["count"]) == ("status <n> at <n>", "server", plain["n"])
    assert group["example"].startswith("status 50")


async def test_slow_and_recent_calls_waste_and_callers_are_those_of_plain_sql(stored, get):
    answer = (await get(f"/v1/console/tool/{TOOL}", hours=HOURS)).json()
    rows = await Database(stored).rows(
        "SELECT * FROM tool_metrics WHERE tool_name = {tool:String} AND recorded_at >= {since:DateTime64(6)}",
        {"tool": TOOL, "since": datetime.fromisoformat(answer["since"])},
    )
    made = [row for row in rows if row["status"] != "rejected"]
    failed = [row for row in made if row["status"] == "error"]
    slowest = sorted(made, key=lambda row: -row["execution_time_ms"])[:20]
    assert [each["metric_id"] for each in answer["slow"]] == [str(row["metric_id"]) for row in slowest]
    newest = sorted(rows, key=lambda row: row["recorded_at"], reverse=True)[:20]
    assert [each["metric_id"] for each in answer["recent"]] == [str(row["metric_id"]) for row in newest]
    assert answer["waste"] == pytest.approx(
        {
            "calls": len(failed),
            "tokens": sum(row["input_tokens"] for row in failed),
            "usd": 0.5 * len(failed),
            "seconds": sum(row["execution_time_ms"] for row in failed) / 1000,
        }
    )
    callers = {
        (each["service"], each["host"]): (each["calls"], each["errors"])
        for each in answer["callers"]
        if each["service"]
    }
    for (service, host), counts in callers.items():
        of_it = [row for row in made if (row["service"], row["emitter_id"]) == (service, host)]
        assert counts == (len(of_it), sum(row["status"] == "error" for row in of_it))
    assert len(callers) == 6


async def test_policy_rows_say_where_each_value_comes_from(stored, tmp_path):
    (tmp_path / "policies.toml").write_text(
        '[default]\nminimum_reporters = 2\n[tools."mcp:github:*"]\nconsecutive_failures = 7\n'
    )
    app = create_app(stored, Settings(policy_file=tmp_path / "policies.toml"), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = (await http.get(f"/v1/console/tool/{TOOL}")).json()
        listed = (await http.get("/v1/policies")).json()
    rows = {each["setting"]: (each["value"], each["source"], each["pattern"]) for each in answer["policy"]}
    assert rows["consecutive_failures"] == (7, "file", "mcp:github:*")
    assert rows["minimum_reporters"] == (2, "file", None)
    assert rows["mode"] == ("enforce", "default", None)
    assert listed["rules"] == [{"pattern": "mcp:github:*", "values": {"consecutive_failures": 7}}]
    assert listed["overrides"] is None


async def test_tool_that_was_never_called_is_not_found(get):
    answer = await get("/v1/console/tool/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_calls_are_found_page_by_page_each_once_and_newest_first(get):
    found, after = [], None
    for _ in range(10):
        given = {"status": "error", "limit": 25} | ({} if after is None else {"after": after})
        page = (await get("/v1/calls", **given)).json()
        found += page["items"]
        after = page["next"]
        if after is None:
            break
    assert len(found) == len({each["metric_id"] for each in found}) == 60
    assert [each["at"] for each in found] == sorted((each["at"] for each in found), reverse=True)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"tool": TOOL}, 181), ({"class": "server"}, 60), ({"user": "u1"}, 36), ({"session": "s1"}, 45), ({"service": "svc0"}, 90),
        ({"text": "STATUS 501"}, 30), ({"text": "nothing such"}, 0), ({"since": "2030-01-01T00:00:00Z"}, 0), ({"status": "rejected"}, 1),
    ],
)  # fmt: skip
async def test_calls_meet_every_condition_that_is_given(get, given, count):
    answer = (await get("/v1/calls", limit=1000, **given)).json()
    assert len(answer["items"]) == count


@pytest.mark.parametrize("given", [{"after": "nonsense"}, {"since": "yesterday"}, {"limit": "0"}, {"colour": "red"}])
async def test_wrong_parameters_of_calls_are_named(get, given):
    answer = await get("/v1/calls", **given)
    assert answer.status_code == 400
    assert next(iter(given)) in answer.json()["detail"]


async def test_calls_of_a_session_come_in_their_order(get):
    answer = (await get("/v1/sessions/s2/calls")).json()
    assert {each["session_id"] for each in answer["items"]} == {"s2"}
    assert [each["at"] for each in answer["items"]] == sorted(each["at"] for each in answer["items"])
    assert len(answer["items"]) == 45


async def test_timeline_has_every_transition_the_commands_as_marks_and_the_fleets_errors(stored, get):
    answer = (await get("/v1/console/timeline", hours=24)).json()
    assert [(each["from"], each["to"]) for each in answer["transitions"]] == [
        (None, "closed"), ("closed", "open"), ("open", "closed"), ("closed", "forced_open"),
    ]  # fmt: skip
    assert answer["transitions"][-1]["actor"] == "ops@example.com"
    (mark,) = answer["marks"]
    assert (mark["kind"], mark["text"]) == ("command", f"{TOOL}: Forced open by ops@example.com: maintenance.")
    assert (sum(answer["series"]["calls"]), sum(answer["series"]["errors"])) == (180, 60)


async def test_replay_compares_a_proposed_policy_with_the_present_one(get, stored):
    app = create_app(stored, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        body = {"tool": TOOL, "policy": {"consecutive_failures": 1, "minimum_reporters": 1}, "hours": 12}
        answer = (await http.post("/v1/policies/replay", json=body)).json()
        wrong = await http.post("/v1/policies/replay", json=body | {"policy": {"consecutive_failurs": 1}})
        both = await http.post("/v1/policies/replay", json=body | {"pattern": "*"})
    assert answer["calls"] == 181
    assert answer["proposed"]["calls"] == answer["present"]["calls"] == 180
    assert answer["proposed"]["opens"] > answer["present"]["opens"]
    assert answer["proposed"]["minutes_open"] > 0
    assert answer["proposed"]["transitions"][0]["state"] == "open"
    assert (wrong.status_code, both.status_code) == (400, 400)
    assert "consecutive_failures" in wrong.text
