"""The bench of the streams, smaller: a gateway process, the broker, and a process with many clients."""

from __future__ import annotations

import pytest

from switchgear_schemas.settings import Settings
from tests.bench.fan_out import measure

pytestmark = pytest.mark.deep

CLIENTS, CIRCUITS, CHANGES = 200, 300, 12


async def test_every_stream_gets_every_change_and_all_of_them_resume_at_once(settings: Settings) -> None:
    found = await measure(settings, CLIENTS, CIRCUITS, CHANGES, idle_s=0.5)
    assert found["received"] == CLIENTS * CHANGES
    assert found["last_p99_ms"] < 5_000
    assert found["kib_per_client"] < 100
    assert found["snapshot_bytes"] > 500 * CIRCUITS
    assert found["snapshot_storm_kib"] * 1024 > 500 * CIRCUITS
    assert found["resume_storm_kib"] < CHANGES, "they get the changes since their last heartbeat, and no snapshot"
