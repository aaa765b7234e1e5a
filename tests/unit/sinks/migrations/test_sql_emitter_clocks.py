"""Processes whose clock is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from switchgear_sinks.store import Store
from tests.support.engine import call, store_calls

NOW = datetime(2026, 11, 28, 12, 0, 5, tzinfo=UTC)


async def _rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    return [tuple(each) for each in (await store.query(sql)).result_rows]


def _sent(emitter_id: str, off_s: float, **more: Any) -> dict[str, Any]:
    arrived = {"kafka_timestamp": NOW.isoformat()}
    return call(at=NOW + timedelta(seconds=off_s), emitter_id=emitter_id) | arrived | more


@pytest.mark.deep
async def test_only_processes_whose_clock_is_more_than_a_minute_off_are_kept(store: Store) -> None:
    ahead = (NOW + timedelta(days=90)).isoformat()
    naive = (NOW + timedelta(hours=2)).replace(tzinfo=None).isoformat()
    await store_calls(
        store,
        [
            *[_sent("right", off) for off in (-60, 0, 60)],
            _sent("behind", -61),
            _sent("behind", -3_600),
            _sent("ahead", 0, recorded_as=ahead),
            _sent("naive", 0, recorded_as=naive),
        ],
    )
    found = await _rows(
        store,
        "SELECT emitter_id, sum(events), sum(ahead), sum(behind), sum(without_zone), min(least_s), max(most_s)"
        " FROM emitter_clocks GROUP BY emitter_id ORDER BY emitter_id",
    )
    assert found == [
        ("ahead", 1, 1, 0, 0, 90 * 86_400, 90 * 86_400),
        ("behind", 2, 0, 2, 0, -3_600, -61),
        ("naive", 1, 1, 0, 1, 7_200, 7_200),
    ]
