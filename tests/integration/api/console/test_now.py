"""The page ``now`` over the real engine: every number is computed a second time by plain SQL over ``tool_metrics``."""

import asyncio
import gzip
from datetime import UTC, datetime, timedelta

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Database
from tests.support.engine import call, store_calls, store_circuits

OPEN, CLOSED, BAD_ARGUMENTS = "mcp:github:search", "web", "sql"
PLAIN = """
    SELECT
        countIf(status != 'rejected') AS calls,
        countIf(status IN ('error', 'timeout') AND error_class NOT IN ('tool', 'invalid_input', 'auth', 'policy')) AS errors,
        countIf(status = 'timeout') AS timeouts,
        countIf(status IN ('error', 'timeout') AND error_class IN ('tool', 'invalid_input', 'auth', 'policy')) AS caller_errors,
        countIf(status = 'cancelled') AS cancelled,
        sumIf(if(JSONHas(metadata, 'refused'), JSONExtractUInt(metadata, 'refused'), 1), status = 'rejected') AS refused
    FROM tool_metrics WHERE tool_name = {tool:String} AND recorded_at >= {since:DateTime64(6)}
"""
BEAT = """
    SELECT dateDiff('minute', {since:DateTime('UTC')}, toStartOfMinute(toDateTime(recorded_at, 'UTC'))) AS place,
        countIf(status != 'rejected') AS calls,
        countIf(status IN ('error', 'timeout') AND error_class NOT IN ('tool', 'invalid_input', 'auth', 'policy')) AS errors
    FROM tool_metrics WHERE tool_name = {tool:String} AND recorded_at >= {since:DateTime('UTC')} GROUP BY place
"""
COST = """
    SELECT count() AS calls, sum(input_tokens + output_tokens + cache_creation_tokens) AS tokens, sum(cost_usd) AS usd,
        sum(execution_time_ms) / 1000 AS seconds
    FROM tool_metrics WHERE tool_name = {tool:String} AND recorded_at >= {since:DateTime64(6)} AND status IN ('error', 'timeout')
"""


def rows_of(now: datetime) -> list[dict]:
    rows = []
    for minute in range(70):
        at = now - timedelta(minutes=minute)
        rows += [
            call(CLOSED, at=at, execution_time_ms=40 + minute, service="agent", user_id=f"u{minute % 3}"),
            call(OPEN, "error" if minute % 2 else "timeout", at=at, execution_time_ms=900, input_tokens=100 + minute,
                 output_tokens=5, cost_usd=0.25, error_class="transport", error_type="ConnectError", error_message="down",
                 service=f"svc{minute % 4}", user_id=f"u{minute % 5}", session_id=f"s{minute % 7}"),
            call(BAD_ARGUMENTS, "error", at=at, execution_time_ms=3, error_class="invalid_input", error_message="no such table"),
        ]  # fmt: skip
    rows += [
        call(
            OPEN,
            "rejected",
            at=now - timedelta(minutes=each),
            metadata={"refused": 3, "refused_by": "fleet"},
            generation=2,
        )
        for each in range(1, 10)
    ]
    rows.append(call(CLOSED, "cancelled", at=now, execution_time_ms=5, error_class="cancelled"))
    return rows


def circuits_of(now: datetime) -> list[Circuit]:
    opened = now - timedelta(minutes=12)
    cause = Cause(rule="failure_rate", value=0.9, threshold=0.5, sample=20, reporters=2)
    common = {"circuit_id": OPEN, "tool_name": OPEN, "family": "mcp:github", "last_error": "ConnectError: down"}
    return [
        Circuit(**common, state="open", previous_state="closed", version=1, generation=1, cause=cause, changed_at=opened),
        Circuit(**common, state="half_open", previous_state="open", version=2, generation=2, cause=cause,
                changed_at=now - timedelta(minutes=6)),
        Circuit(**common, state="open", previous_state="half_open", version=3, generation=3, cause=cause, attempt=2,
                changed_at=now - timedelta(minutes=5), open_until=now + timedelta(minutes=1)),
        Circuit(circuit_id="mcp:github|family", tool_name="mcp:github", family="mcp:github", scope="family", state="closed",
                version=1, generation=1, changed_at=opened),
        Circuit(circuit_id=f"{CLOSED}|user=u1", tool_name=CLOSED, scope="user", state="open", version=1, generation=1,
                changed_at=opened),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def world(engine):
    """The stored calls and circuits, and the answer of an API over them."""
    from tests.support.engine import emptied  # noqa: PLC0415 - the module's own store

    store, now = emptied(engine), datetime.now(UTC)

    async def made() -> dict:
        await store_calls(store, rows_of(now))
        await store_circuits(store, circuits_of(now))
        return (await ask(create_app(store, Settings(), registry=CollectorRegistry()), "/v1/console/now")).json()

    return store, asyncio.run(made())


async def ask(app, path, token=None, address="127.0.0.1"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app=app, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
        return await http.get(path)


def since_of(answer) -> datetime:
    checked = datetime.fromisoformat(answer["checked_at"])
    return checked.replace(second=0, microsecond=0) - timedelta(minutes=answer["minutes"] - 1)


def tool_of(answer, name):
    return next(each for each in answer["tools"] if each["tool"] == name)


@pytest.mark.parametrize("name", [OPEN, CLOSED, BAD_ARGUMENTS])
async def test_every_count_of_a_tool_is_that_of_plain_sql(world, name):
    store, answer = world
    (plain,) = await Database(store).rows(PLAIN, {"tool": name, "since": since_of(answer)})
    stats = tool_of(answer, name)["stats"]
    assert {key: stats[key] for key in plain} == plain
    judged = plain["calls"] - plain["caller_errors"] - plain["cancelled"]
    assert stats["error_rate"] == (round(plain["errors"] / judged, 6) if judged else 0)


@pytest.mark.parametrize("name", [OPEN, CLOSED])
async def test_beat_of_a_tool_is_that_of_plain_sql_minute_by_minute(world, name):
    store, answer = world
    plain = await Database(store).rows(BEAT, {"tool": name, "since": since_of(answer)})
    wanted: dict[str, list[int]] = {"calls": [0] * 60, "errors": [0] * 60}
    for row in plain:
        for kind, minutes in wanted.items():
            minutes[row["place"]] = row[kind]
    beat = tool_of(answer, name)["beat"]
    assert beat == wanted
    assert sum(beat["calls"]) > 50


async def test_percentiles_are_within_a_bucket_of_the_exact_ones(world):
    store, answer = world
    since = since_of(answer)
    quarter = since.replace(minute=since.minute // 15 * 15)
    (exact,) = await Database(store).rows(
        "SELECT quantilesExact(0.5, 0.95, 0.99)(execution_time_ms) AS found FROM tool_metrics "
        "WHERE tool_name = {tool:String} AND status = 'success' AND recorded_at >= {since:DateTime64(6)}",
        {"tool": CLOSED, "since": quarter},
    )
    stats = tool_of(answer, CLOSED)["stats"]
    assert [stats["p50_ms"], stats["p95_ms"], stats["p99_ms"]] == pytest.approx(exact["found"], rel=0.09)


async def test_waste_and_saving_since_the_opening_are_those_of_plain_sql(world):
    store, answer = world
    tool = tool_of(answer, OPEN)
    opened = datetime.fromisoformat(tool["opened_at"])
    (wasted,) = await Database(store).rows(COST, {"tool": OPEN, "since": opened})
    assert tool["wasted"] == pytest.approx(wasted)
    assert wasted["calls"] >= 11
    (mean,) = await Database(store).rows(COST, {"tool": OPEN, "since": opened - timedelta(hours=24)})
    saved = tool["saved"]
    assert saved["refused"] == 27
    assert saved["tokens"] == round(27 * mean["tokens"] / mean["calls"])
    assert saved["usd"] == pytest.approx(27 * mean["usd"] / mean["calls"])
    assert saved["seconds"] == pytest.approx(27 * mean["seconds"] / mean["calls"])


async def test_blast_counts_the_services_users_and_sessions_of_the_window(world):
    store, answer = world
    (plain,) = await Database(store).rows(
        "SELECT uniqExactIf(service, service != '') AS services, uniqExactIf(user_id, user_id != '') AS users, "
        "uniqExactIf(session_id, session_id != '') AS sessions FROM tool_metrics "
        "WHERE tool_name = {tool:String} AND recorded_at >= {since:DateTime64(6)}",
        {"tool": OPEN, "since": since_of(answer)},
    )
    blast = tool_of(answer, OPEN)["blast"]
    assert {name: blast[name] for name in plain} == plain
    assert len(blast["top_services"]) == 4
    assert tool_of(answer, CLOSED)["blast"] is None


async def test_totals_of_the_fleet_are_the_sums_of_its_tools(world):
    _, answer = world
    fleet, tools = answer["fleet"], answer["tools"]
    for name in ("calls", "errors", "refused"):
        assert fleet[name] == sum(each["stats"][name] for each in tools)
    assert (fleet["tools"], fleet["open"], fleet["half_open"]) == (3, 1, 0)


async def test_open_tool_comes_first_and_says_why_since_when_and_what_to_do(world):
    _, answer = world
    tool = answer["tools"][0]
    assert (tool["tool"], tool["state"], tool["family"], tool["kind"]) == (OPEN, "open", "mcp:github", "down")
    assert (tool["rule"], tool["value"], tool["threshold"], tool["sample"], tool["reporters"]) == (
        "failure_rate",
        0.9,
        0.5,
        20,
        2,
    )
    assert tool["why"] == "18 of the last 20 calls failed (90 %; the limit is 50 %); reported by at least 2 processes."
    opened = datetime.fromisoformat(tool["opened_at"])
    since = datetime.fromisoformat(tool["since"])
    assert timedelta(minutes=6.9) < since - opened < timedelta(minutes=7.1)
    assert "Check the server" in tool["action"]["text"]
    assert tool_of(answer, BAD_ARGUMENTS)["kind"] == "rejects_arguments"
    assert tool_of(answer, CLOSED)["scoped_open"] == 1


async def test_family_lists_its_tools(world):
    _, answer = world
    assert [(each["tool"], each["tools"]) for each in answer["families"]] == [("mcp:github", [OPEN])]


async def test_age_of_the_data_is_that_of_the_newest_event_and_circuits_without_kafka_are_not_fresh(world):
    store, answer = world
    (plain,) = await Database(store).rows("SELECT max(kafka_timestamp) AS at FROM tool_metrics")
    assert answer["data"]["newest_event_at"][:19] == plain["at"].isoformat()[:19]
    assert answer["data"]["circuits_fresh"] is False


async def with_the_usual_answer(store, other):
    """Ask the API in the usual way and in another way, within one minute: the next minute has an hour of its own."""
    app = create_app(store, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        while True:
            usual = (await http.get("/v1/console/now")).json()
            found = await other(http)
            if since_of(usual) == since_of(found):
                return usual, found


async def test_answer_is_compressed_where_the_client_accepts_it(world):
    store, _ = world

    async def compressed(http):
        async with http.stream("GET", "/v1/console/now", headers={"accept-encoding": "gzip"}) as got:
            raw = b"".join([each async for each in got.aiter_raw()])
        return msgspec.json.decode(gzip.decompress(raw))

    answer, unpacked = await with_the_usual_answer(store, compressed)
    assert unpacked["fleet"] == answer["fleet"]


async def test_tools_in_trouble_can_be_read_alone_with_the_totals_of_all(world):
    store, _ = world

    async def in_trouble(http):
        return (await http.get("/v1/console/now", params={"troubled": 1})).json()

    answer, troubled = await with_the_usual_answer(store, in_trouble)
    assert troubled["fleet"] == answer["fleet"]
    names = [each["tool"] for each in troubled["tools"]]
    assert names == [
        each["tool"]
        for each in answer["tools"]
        if each["state"] != "closed" or each["action"]["text"] or each["scoped_open"] or each["local_opens"]
    ]
    assert OPEN in names


async def test_token_of_a_tenant_or_of_some_tools_sees_no_more_than_that(world, tmp_path):
    store, _ = world
    document, texts = "", {}
    for name, rights in {"acme": {"tenant": "acme"}, "web": {"tools": ["web"]}}.items():
        token, texts[name] = new_token(name, [Role.READ], **rights)
        document = with_token(document, token)
    (tmp_path / "tokens.toml").write_text(document)
    settings = Settings(access_tokens_file=tmp_path / "tokens.toml", api_http="0.0.0.0:0")
    app = create_app(store, settings, registry=CollectorRegistry())
    acme = (await ask(app, "/v1/console/now", texts["acme"])).json()
    assert (acme["tools"], acme["families"], acme["fleet"]["calls"]) == ([], [], 0)
    web = (await ask(app, "/v1/console/now", texts["web"])).json()
    assert [each["tool"] for each in web["tools"]] == ["web"]
    assert web["fleet"]["calls"] == web["tools"][0]["stats"]["calls"]
    assert (await ask(app, "/v1/console/now")).status_code == 401
