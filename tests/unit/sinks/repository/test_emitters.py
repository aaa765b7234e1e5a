"""The processes whose clock is wrong, from what the sink stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import EmittersRepository
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from switchgear_sinks.writer.rows import ExecutionRows
from tests.support.records import HandMadeRecord, execution

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def found(store):
    """``found((arrival, recorded_at, emitter, …), …)`` stores events as the sink does, and gives what is wrong, by emitter."""

    async def look(*events, tenant=None, since=NOON - 24 * HOUR):
        records = [
            HandMadeRecord(
                offset=offset,
                timestamp=int(arrived.timestamp() * 1000),
                value=execution(recorded_at=sent, emitter_id=emitter, service="agents", tenant=of or None),
            )
            for offset, (arrived, sent, emitter, of) in enumerate(events)
        ]
        rows = ExecutionRows().rows(records)
        assert rows.dead == []
        settings = INSERT_SETTINGS | {"insert_deduplicate": 0}
        await store.raw_insert("tool_metrics", b"\n".join(rows.values), "JSONEachRow", settings)
        listed = await EmittersRepository(store, 300, tenant=tenant).wrong_clocks(since)
        return {each["emitter_id"]: each for each in listed}

    return look


def each_hour(emitter, off, *, zone=True, hours=4, tenant=""):
    """An event an hour from an emitter whose times are ``off`` from the truth."""
    return [
        (at, (at + off).isoformat() if zone else (at + off).replace(tzinfo=None).isoformat(), emitter, tenant)
        for at in (NOON - each * HOUR + timedelta(minutes=7) for each in range(hours))
    ]


async def test_each_kind_of_wrong_clock_is_named_with_what_to_do(found):
    wrong = await found(
        *each_hour("right", timedelta(seconds=-3)),
        *each_hour("utc without a zone", timedelta(seconds=-3), zone=False),
        *each_hour("new york", -5 * HOUR, zone=False),
        *each_hour("2099", timedelta(days=26_332)),
        *each_hour("slow", timedelta(minutes=-12)),
        (NOON, "2026-11-28t12:07:00z", "fast", ""),
    )
    assert {name: each["text"] for name, each in wrong.items()} == {
        "new york": "its times have no time zone and are 5 h behind UTC, so no circuit counts its calls",
        "2099": "its clock is 26,332 days ahead of the broker's, so its calls are stored with the broker's time",
        "fast": "its clock is 7 min ahead of the broker's, so its calls are stored with the broker's time",
        "slow": "its clock is 12 min behind the broker's, so no circuit counts its calls",
    }
    first = wrong["new york"]
    assert (first["events"], first["without_zone"], first["service"], first["counted"]) == (4, 4, "agents", False)
    assert first["offset_s"] == [-18_000, -18_000]
    assert first["last_at"] == NOON + timedelta(minutes=7)
    assert first["todo"].startswith("Send recorded_at with a time zone")
    assert set(list(wrong)[-2:]) == {"2099", "fast"}, "those whose calls nobody counts come first"


async def test_a_spool_that_is_sent_an_hour_later_is_no_wrong_clock(found):
    spooled = [
        (NOON, (NOON - HOUR + timedelta(seconds=each)).isoformat(), "spool", "") for each in range(0, 3_500, 100)
    ]
    short = [(NOON, (NOON - HOUR + timedelta(seconds=each)).isoformat(), "short", "") for each in range(20)]
    assert await found(*spooled, *short) == {}


async def test_an_event_that_is_half_a_minute_off_is_not_kept(found, store):
    assert await found(*each_hour("near", timedelta(seconds=55)), *each_hour("late", timedelta(seconds=-55))) == {}
    assert (await store.query("SELECT count() FROM emitter_clocks")).result_rows[0][0] == 0


async def test_a_tenant_sees_its_own_processes_and_old_hours_end(found):
    ahead = timedelta(minutes=7)
    events = [*each_hour("a", ahead, tenant="acme"), *each_hour("b", ahead, tenant="globex")]
    assert set(await found(*events)) == {"a", "b"}
    assert set(await found(*events[:1], tenant="acme")) == {"a"}
    assert await found(*events[:1], since=NOON + 2 * HOUR) == {}
