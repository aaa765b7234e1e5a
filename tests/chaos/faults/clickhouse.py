"""Faults of ClickHouse: it refuses, breaks off, is slow, or is gone."""

from __future__ import annotations

import asyncio

from tests.chaos.faults.kind import Act, Kind
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

REFUSALS = ("503", "code-252", "reset", "code-241")


def _ordered(*orders: str) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        order = orders[planned.choice % len(orders)]
        await stage.clickhouse.order(order)
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            await stage.clickhouse.order("ok")
        return f"inserts: {order}"

    return act


async def _gone(stage: Stage, planned: Planned) -> str:
    stage.clickhouse.kill()
    await asyncio.sleep(planned.seconds)
    stage.clickhouse.spawn()
    await stage.clickhouse.answering()
    return f"killed, gone for {planned.seconds:.1f} s"


def kinds() -> dict[str, Kind]:
    """Return ``clickhouse-refuses``, ``-slow``, ``-breaks-off`` (after storing) and ``-gone`` (connections refused)."""
    return {
        "clickhouse-refuses": Kind(Span("clickhouse", 3, 8), _ordered(*REFUSALS)),
        "clickhouse-slow": Kind(Span("clickhouse", 4, 8), _ordered("slow-0.5", "slow-1.5")),
        "clickhouse-breaks-off": Kind(Span("clickhouse", 3, 6), _ordered("stored-then-reset")),
        "clickhouse-gone": Kind(Span("clickhouse", 2, 6), _gone),
    }
