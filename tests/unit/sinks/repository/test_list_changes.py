"""How often lists of tools changed, from the metadata of calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import ListChangesRepository
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from switchgear_sinks.writer.rows import ExecutionRows
from tests.support.records import HandMadeRecord, execution

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def found(store):
    """``found((service, process, metadata, minutes before noon), …)`` stores calls as the sink does, and gives the changes of the hour."""

    async def look(*calls, tenant=None):
        records = [
            HandMadeRecord(
                offset=offset,
                timestamp=int(NOON.timestamp() * 1000),
                value=execution(
                    recorded_at=(NOON - timedelta(minutes=ago)).isoformat(),
                    service=service,
                    emitter_id=process,
                    metadata=metadata,
                    tenant="acme" if service == "theirs" else None,
                ),
            )
            for offset, (service, process, metadata, ago) in enumerate(calls)
        ]
        rows = ExecutionRows().rows(records)
        assert rows.dead == []
        settings = INSERT_SETTINGS | {"insert_deduplicate": 0}
        await store.raw_insert("tool_metrics", b"\n".join(rows.values), "JSONEachRow", settings)
        listed = await ListChangesRepository(store, tenant=tenant).by_service(NOON - HOUR, NOON)
        return [(each["service"], each["tenant"], each["processes"], each["changes"]) for each in listed]

    return look


async def test_changes_of_the_hour_are_added_up_by_service(found):
    assert await found(
        ("agents", "a", {"tool_list_changes": 2}, 5),
        ("agents", "b", {"tool_list_changes": 1, "asked": 3}, 10),
        ("agents", "a", {"tool_list_changes": 7}, 61),
        ("agents", "c", {"asked": 3}, 10),
        ("quiet", "d", None, 10),
        ("cron", "e", {"tool_list_changes": 9}, 10),
    ) == [("cron", "", 1, 9), ("agents", "", 2, 3)]


async def test_a_tenant_sees_its_own_services(found):
    calls = [(name, "p", {"tool_list_changes": 1}, 1) for name in ("ours", "theirs")]
    assert await found(*calls, tenant="acme") == [("theirs", "acme", 1, 1)]


async def test_numbers_that_no_process_counts_to_are_cut_and_words_count_as_nothing(found):
    odd = [-1, 2**70, 1.5, "many", None, {"a": 1}, True]
    calls = [("agents", f"p{number}", {"tool_list_changes": value}, 1) for number, value in enumerate(odd)]
    ((_, _, _, changes),) = await found(*calls)
    assert changes <= 1_000_000
