"""Faults of links: slow or cut, between callers and brokers, between brokers, to ClickHouse, or to a gateway."""

from __future__ import annotations

import asyncio

from tests.chaos.cluster import CALLERS
from tests.chaos.faults.kind import Act, Kind
from tests.chaos.proxy import Link
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

DOMAINS = {"worker": "worker", "sink": "sink", "client": "emitter", "replica": "brokers"}
DELAYS_S = (0.05, 0.15, 0.4)


def _links(stage: Stage, caller: str, planned: Planned) -> list[Link]:
    """Return all links of a caller, or one of them. Between brokers only one: with two, there would be no majority."""
    links = stage.network.named(f"{caller}/broker-")
    everywhere = planned.choice % 2 == 0 and caller != "replica"
    return links if everywhere else [links[planned.choice // 2 % len(links)]]


def _slow(caller: str) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        links = stage.network.named(f"{caller}/broker-")
        delay = DELAYS_S[planned.choice % len(DELAYS_S)]
        for link in links:
            link.slow(delay)
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            stage.network.mend(links)
        return f"{caller}: {delay:g} s more on {len(links)} links"

    return act


def _cut(caller: str) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        links = _links(stage, caller, planned)
        return await _while_cut(stage, links, planned)

    return act


async def _while_cut(stage: Stage, links: list[Link], planned: Planned) -> str:
    broken = planned.choice // 64 % 4 == 0
    for link in links:
        link.close() if broken else link.cut()
    try:
        await asyncio.sleep(planned.seconds)
    finally:
        stage.network.mend(links)
    return f"{', '.join(link.name for link in links)} {'closed' if broken else 'cut'}"


async def _clickhouse_cut(stage: Stage, planned: Planned) -> str:
    return await _while_cut(stage, stage.network.named("sink/clickhouse"), planned)


async def _gateway_cut(stage: Stage, planned: Planned) -> str:
    links = stage.network.named("load/gateway-")
    return await _while_cut(stage, [links[planned.choice % len(links)]], planned)


async def _clickhouse_slow(stage: Stage, planned: Planned) -> str:
    (link,) = stage.network.named("sink/clickhouse")
    link.slow(0.3)
    try:
        await asyncio.sleep(planned.seconds)
    finally:
        link.mend()
    return "sink/clickhouse: 0.3 s more"


def kinds() -> dict[str, Kind]:
    """Return ``net-slow-X`` and ``net-cut-X`` for each caller, for ``replica`` (broker to broker) and for ``clickhouse``, and ``net-cut-gateway``."""
    found = {}
    for caller in (*CALLERS, "replica"):
        found[f"net-slow-{caller}"] = Kind(Span(DOMAINS[caller], 5, 10), _slow(caller))
        found[f"net-cut-{caller}"] = Kind(Span(DOMAINS[caller], 4, 12), _cut(caller))
    found["net-cut-gateway"] = Kind(Span("gateway", 4, 12), _gateway_cut)
    found["net-slow-clickhouse"] = Kind(Span("clickhouse", 5, 10), _clickhouse_slow)
    found["net-cut-clickhouse"] = Kind(Span("clickhouse", 4, 12), _clickhouse_cut)
    return found
