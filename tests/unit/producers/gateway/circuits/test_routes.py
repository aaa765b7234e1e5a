"""Both routes on a real server, with clients on real sockets. The fleet is in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from switchgear.fleet import Message
from switchgear.testing import FakeClock, MemoryFollower
from switchgear_gateway.circuits import CircuitRoutes, stream
from switchgear_gateway.shared import Shared
from switchgear_gateway.tenant_tools import TenantTools
from switchgear_http.principal import Role
from switchgear_http.token_source import FixedTokens, TokenFile
from switchgear_http.tokens import new_token, with_revoked, with_token
from switchgear_schemas.errors import SwitchgearError
from tests.support.circuit_server import serving
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.sse import EventStream
from tests.support.waiting import auntil
from tests.unit.producers.gateway.circuits.test_changes import record


class Fleet:
    """Circuits that the routes serve."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.follower = MemoryFollower(self.clock.monotonic)
        self.tools = TenantTools()
        self.routes = CircuitRoutes(self.follower, Shared(tenant_tools=self.tools))
        self.port = 0
        self._offset = 0

    def publish(self, *tools: str, version: int | None = None, **fields: Any) -> None:
        """Write a record of each circuit."""
        fields = {"generation": 1, "changed_at": "2026-11-26T00:00:00Z"} | fields
        for tool in tools:
            made = record(tool, self._offset, version or self._offset + 1, **fields)
            self.follower.deliver([made])
            self._offset += 1

    def remove(self, circuit_id: str) -> None:
        """Write a removal."""
        self.follower.deliver([Message("circuits", 0, self._offset, 0, circuit_id.encode(), None)])
        self._offset += 1

    def stream(self, **arguments: Any) -> EventStream:
        """Return a stream that is not open yet."""
        return EventStream(self.port, **arguments)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Send a request."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", headers=headers) as client:
            return await client.get(path)


TOKENS = {
    "all": new_token("all", [Role.READ]),
    "some": new_token("some", [Role.READ], tools=["mcp:github:*"]),
    "tenant": new_token("tenant", [Role.READ], tenant="acme"),
    "other": new_token("other", [Role.READ], tenant="globex"),
}


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = Fleet()
    made.publish("search", "mcp:github:merge")
    made.follower.loaded = True
    async with serving(made.routes) as made.port:
        await auntil(lambda: made.routes.loaded, HAPPEN_S)
        yield made


@pytest.fixture
async def guarded() -> AsyncIterator[Fleet]:
    text = ""
    for token, _ in TOKENS.values():
        text = with_token(text or '{"tokens": []}', token)
    made = Fleet()
    made.publish("search", "mcp:github:merge", last_error="of another tenant", counts={"calls": 9})
    made.publish("mcp:github|family", tool_name="mcp:github", scope="family")
    made.publish("search|user=1", tool_name="search", scope="user")
    made.follower.loaded = True
    async with serving(made.routes, (FixedTokens(text, "the test"),)) as made.port:
        await auntil(lambda: made.routes.loaded, HAPPEN_S)
        yield made


@pytest.mark.slow
async def test_a_stream_begins_with_a_snapshot_and_a_heartbeat_and_then_sends_each_change(fleet: Fleet) -> None:
    async with fleet.stream() as events:
        assert events.headers["content-type"] == "text/event-stream; charset=utf-8"
        first = await events.next()
        assert first is not None
        assert (first.event, set(first.data["circuits"])) == ("snapshot", {"search", "mcp:github:merge"})
        assert first.data["circuits"]["search"]["version"] == 1
        beat = await events.next()
        assert beat == (first.id, "heartbeat", {"fresh": True})
        fleet.publish("search", state="closed")
        change = await events.next()
        assert change is not None
        assert (change.event, change.data["circuit_id"], change.data["state"]) == ("circuit", "search", "closed")
        fleet.remove("search")
        removed = await events.next()
        assert removed is not None
        assert removed.data == {"circuit_id": "search", "removed": True}
        assert len({first.id, change.id, removed.id}) == 3


@pytest.mark.slow
async def test_a_stream_resumes_with_what_it_missed_and_a_heartbeat_at_once(fleet: Fleet) -> None:
    async with fleet.stream() as events:
        snapshot = await events.next()
    assert snapshot is not None
    fleet.publish("search", "new")
    async with fleet.stream(last_id=snapshot.id) as events:
        missed = [await events.next() for _ in range(3)]
    assert [(each.event, each.data.get("circuit_id")) for each in missed if each] == [
        ("circuit", "search"),
        ("circuit", "new"),
        ("heartbeat", None),
    ]
    async with fleet.stream(last_id="0.fff-12345678") as events:
        again = await events.next()
    assert again is not None
    assert (again.event, set(again.data["circuits"])) == ("snapshot", {"search", "mcp:github:merge", "new"})


@pytest.mark.slow
async def test_a_glob_limits_the_stream_and_the_snapshot_and_heartbeats_carry_the_cursor_on(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", (0.02, 0.03))
    async with fleet.stream(tool="mcp:*") as events:
        first = await events.next()
        assert first is not None
        assert set(first.data["circuits"]) == {"mcp:github:merge"}
        assert (await events.next()) is not None
        fleet.publish("search")
        beat = await events.next()
        assert beat is not None
        while beat.id == first.id:  # one may have been on its way
            beat = await events.next()
            assert beat is not None
        assert beat.event == "heartbeat"
        fleet.publish("mcp:github:merge")
        change = await events.next()
        while change is not None and change.event == "heartbeat":
            change = await events.next()
        assert change is not None
        assert change.data["circuit_id"] == "mcp:github:merge"
    found = (await fleet.get("/v1/circuits?tool=s*")).json()
    assert set(found["circuits"]) == {"search"}


@pytest.mark.slow
async def test_a_heartbeat_says_that_the_gateway_is_out_of_date(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", (0.05, 0.06))
    async with fleet.stream() as events:
        await events.next()
        assert (await events.next() or ("", "", {}))[2] == {"fresh": True}
        fleet.follower.cut()
        fleet.clock.advance(20)
        await until_beat(events, fresh=False)
        fleet.follower.mend()
        await until_beat(events, fresh=True)


async def until_beat(events: EventStream, *, fresh: bool) -> None:
    while True:
        beat = await events.next()
        assert beat is not None
        if beat.data == {"fresh": fresh}:
            return


@pytest.mark.slow
async def test_a_snapshot_has_a_tag_and_is_compressed(fleet: Fleet) -> None:
    fleet.publish(*(f"t{number}" for number in range(200)))
    await auntil(lambda: "t199" in fleet.follower.table.views, HAPPEN_S)
    answer = await fleet.get("/v1/circuits", **{"Accept-Encoding": "gzip"})
    tag = answer.headers["etag"]
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(answer.content) / 4
    plain = await fleet.get("/v1/circuits", **{"Accept-Encoding": "identity"})
    assert plain.content == answer.content
    assert "content-encoding" not in plain.headers
    assert len(plain.json()["circuits"]) == 202
    same = await fleet.get("/v1/circuits", **{"If-None-Match": f'"x", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert (await fleet.get("/v1/circuits?tool=t1*", **{"If-None-Match": tag})).status_code == 200
    async with fleet.stream(last_id=plain.json()["version"]) as events:
        assert (await events.next() or ("", ""))[1] == "heartbeat", "the version is a cursor"
    fleet.publish("search")
    await asyncio.sleep(0)
    changed = await fleet.get("/v1/circuits", **{"If-None-Match": tag})
    assert (changed.status_code, changed.json()["circuits"]["search"]["version"]) == (200, 203)


@pytest.mark.slow
async def test_tokens_see_the_circuits_of_their_tools_and_a_tenant_those_that_it_has_named(guarded: Fleet) -> None:
    found = {}
    for name, (_, text) in TOKENS.items():
        circuits = (await guarded.get("/v1/circuits", Authorization=f"Bearer {text}")).json()["circuits"]
        async with guarded.stream(token=text) as events:
            snapshot = await events.next()
        assert snapshot is not None
        assert snapshot.data["circuits"] == circuits
        found[name] = circuits
    assert set(found["all"]) == {"search", "mcp:github:merge", "mcp:github|family", "search|user=1"}
    assert set(found["some"]) == {"mcp:github:merge", "mcp:github|family"}
    assert set(found["tenant"]) == set()
    assert "of another tenant" in str(found["all"])
    async with guarded.stream() as events:
        assert events.status == 401


@pytest.mark.slow
async def test_a_tenants_stream_begins_with_what_it_named_and_goes_on_with_what_it_names_later(guarded: Fleet) -> None:
    acme, text = TOKENS["tenant"][0].principal(), TOKENS["tenant"][1]
    guarded.tools.note(acme, ["search"])
    async with guarded.stream(token=text) as events:
        snapshot, _ = await events.next(), await events.next()
        assert snapshot is not None
        assert set(snapshot.data["circuits"]) == {"search"}
        guarded.tools.note(acme, ["search", "new", "mcp:github:merge"])
        named = [await events.next(), await events.next()]
        assert {each.data["circuit_id"] for each in named if each} == {"mcp:github:merge", "mcp:github|family"}
        assert {each.id for each in named if each} == {snapshot.id}, "they are no changes to resume after"
        guarded.publish("secret", "search|user=2", tool_name="search", scope="user")
        guarded.publish("new", last_error="of another tenant")
        change = await events.next()
        assert change is not None
        assert (change.data["circuit_id"], "last_error" in change.data) == ("new", False)
    async with guarded.stream(token=text, last_id=change.id) as events:
        again = await events.next()
    assert again is not None
    assert again.event == "snapshot", "what was named meanwhile is in no change"
    assert "of another tenant" not in str(again.data)
    other = await guarded.get("/v1/circuits?tool=search", Authorization=f"Bearer {TOKENS['other'][1]}")
    assert set(other.json()["circuits"]) == {"search"}
    listed = await guarded.get("/v1/circuits?tool=*", Authorization=f"Bearer {TOKENS['other'][1]}")
    assert listed.json()["circuits"] == {}


@pytest.mark.slow
async def test_a_tenant_gets_its_own_circuit_of_a_tool_and_is_told_whose_it_is(guarded: Fleet) -> None:
    for tenant in ("acme", "globex"):
        guarded.publish(f"search|tenant={tenant}", tool_name="search", scope="tenant")
    records = guarded.routes._hub.changes.records
    await auntil(lambda: "search|tenant=globex" in records, HAPPEN_S)
    async with guarded.stream(token=TOKENS["tenant"][1]) as events:
        await events.next()
        await events.next()
        guarded.tools.note(TOKENS["tenant"][0].principal(), ["search"])
        named = [await events.next(), await events.next()]
        assert [each.data["circuit_id"] for each in named if each] == ["search", "search|tenant=acme"]
        assert events.headers["switchgear-tenant"] == "acme"
    async with guarded.stream(token=TOKENS["all"][1]) as events:
        assert "switchgear-tenant" not in events.headers


@pytest.mark.slow
async def test_a_tenants_process_gets_its_own_probe_leases_only(guarded: Fleet) -> None:
    leases = [
        {"lease_id": f"1.{place}", "emitter_id": each, "expires_at": "2027-01-01T00:00:00Z"}
        for place, each in enumerate(("acme@host-1", "other@host-2"))
    ]
    guarded.publish("search", state="half_open", leases=leases)
    await auntil(lambda: b"leases" in (guarded.routes._hub.changes.records["search"].json or b""), HAPPEN_S)
    token = TOKENS["tenant"][1]
    for query, expected in (("", []), ("&emitter_id=acme@host-1", leases[:1])):
        found = await guarded.get(f"/v1/circuits?tool=search{query}", Authorization=f"Bearer {token}")
        assert found.json()["circuits"]["search"]["leases"] == expected
    whole = await guarded.get("/v1/circuits?tool=search", Authorization=f"Bearer {TOKENS['all'][1]}")
    assert whole.json()["circuits"]["search"]["leases"] == leases


@pytest.mark.slow
async def test_before_the_circuits_are_loaded_both_routes_ask_to_come_back() -> None:
    fleet = Fleet()
    async with serving(fleet.routes) as fleet.port:
        for path in ("/v1/circuits", "/v1/circuits/stream"):
            answer = await fleet.get(path)
            assert answer.status_code == 503
            assert 1 <= int(answer.headers["retry-after"]) <= 5
            assert answer.headers["content-type"] == "application/problem+json"
        fleet.follower.loaded = True
        await auntil(lambda: fleet.routes.loaded, HAPPEN_S)
        assert (await fleet.get("/v1/circuits")).json()["circuits"] == {}
        assert (await fleet.get(f"/v1/circuits?tool={'x' * 600}")).status_code == 422
        assert (await fleet.get("/v1/circuits?tool=a&tool=b")).status_code == 422


@pytest.mark.slow
async def test_more_streams_than_allowed_are_refused_and_a_client_that_leaves_makes_room() -> None:
    fleet = Fleet()
    fleet.routes = CircuitRoutes(follower := MemoryFollower(fleet.clock.monotonic), Shared(), max_streams=1)
    follower.loaded = True
    async with serving(fleet.routes) as fleet.port:
        await auntil(lambda: fleet.routes.loaded, HAPPEN_S)
        async with fleet.stream() as first:
            await first.next()
            async with fleet.stream() as second:
                assert (second.status, json.loads(await second.body())["status"]) == (503, 503)
        await auntil(lambda: fleet.routes.streams == 0, HAPPEN_S)
        async with fleet.stream() as third:
            assert third.status == 200


@pytest.mark.slow
async def test_a_stream_ends_when_the_gateway_stops_or_its_time_is_over(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", (0.05, 0.06))
    monkeypatch.setattr(stream, "LIFETIME_S", (0.1, 0.2))
    async with fleet.stream() as events:
        while await events.next() is not None:
            pass
    assert fleet.routes.streams == 0
    monkeypatch.setattr(stream, "LIFETIME_S", (600.0, 900.0))
    async with fleet.stream() as events:
        await events.next()
        fleet.routes.stop()
        while await events.next() is not None:
            pass
    assert (await fleet.get("/v1/circuits")).status_code == 503


@pytest.mark.slow
async def test_a_stream_ends_soon_after_its_token_was_revoked_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", (0.05, 0.06))
    file = tmp_path / "tokens.json"
    (kept, kept_text), (lost, lost_text) = TOKENS["all"], TOKENS["some"]
    text = with_token(with_token('{"tokens": []}', kept), lost)
    file.write_text(text)
    made = Fleet()
    made.publish("search")
    made.follower.loaded = True
    async with serving(made.routes, (TokenFile(file, check_every_s=0.02),)) as made.port:
        await auntil(lambda: made.routes.loaded, HAPPEN_S)
        async with made.stream(token=kept_text) as going_on, made.stream(token=lost_text) as ending:
            await ending.next()
            file.write_text(with_revoked(text, lost.id, datetime(2026, 11, 26, tzinfo=UTC)))
            async with asyncio.timeout(ANSWER_S):
                while await ending.next() is not None:
                    pass
            await going_on.next()
            made.publish("search", status="open")
            async with asyncio.timeout(ANSWER_S):
                while (event := await going_on.next()) is not None and event.event != "circuit":
                    pass
            assert event is not None
        async with made.stream(token=lost_text) as refused:
            assert refused.status == 401


@pytest.mark.slow
async def test_a_topic_that_was_created_again_is_a_new_snapshot(fleet: Fleet) -> None:
    (feed,) = fleet.follower.record_listeners
    async with fleet.stream() as events:
        snapshot = await events.next()
        assert snapshot is not None
        await events.next()
        feed.restarted()
        feed.changed(record("other", 0, 1))
        await asyncio.sleep(0.05)
        assert "search" in (await fleet.get("/v1/circuits")).json()["circuits"], "until the new topic is read"
        feed.loaded()
        again = await events.next()
    assert again is not None
    assert (again.event, set(again.data["circuits"])) == ("snapshot", {"other"})
    async with fleet.stream(last_id=snapshot.id) as events:
        assert (await events.next() or ("", ""))[1] == "snapshot"


@pytest.mark.slow
async def test_a_client_that_does_not_read_falls_behind_and_later_gets_a_snapshot() -> None:
    fleet = Fleet()
    fleet.follower.loaded = True
    async with serving(fleet.routes, send_buffer=16_384) as fleet.port:
        await auntil(lambda: fleet.routes.loaded, HAPPEN_S)
        fleet.routes._hub.changes.log._most = 16
        async with fleet.stream(receive_buffer=1_024) as slow:
            slow._writer.transport.pause_reading()
            for number in range(400):
                fleet.publish("large", last_error="x" * 40_000, version=100 + number)
                await asyncio.sleep(0.001)
            await auntil(lambda: b'"version":499' in (fleet.routes._hub.changes.records["large"].json or b""), HAPPEN_S)
            slow._writer.transport.resume_reading()
            kinds, newest = [], 0
            while newest < 499:
                event = await slow.next()
                assert event is not None
                kinds.append(event.event)
                record_of = event.data["circuits"].get("large", {}) if event.event == "snapshot" else event.data
                newest = record_of.get("version", newest)
        assert kinds.count("snapshot") >= 2, "it was behind the last change in memory"
        assert slow.received < 200 * 40_000


def test_routes_need_a_follower_that_has_not_begun() -> None:
    follower = MemoryFollower(FakeClock().monotonic)
    follower.loaded = True
    with pytest.raises(SwitchgearError, match="has read the circuits already"):
        CircuitRoutes(follower, Shared())
