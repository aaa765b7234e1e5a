"""`kill -9` of gateways under load: each execution that was acknowledged is stored once, and counted once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_stream.inspect import read_rows
from tests.chaos.proxy import steady_ports
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, all_ended, run, switchgear
from tests.support.resending import ResendingClient
from tests.support.running_gateway import execution
from tests.support.stream import eventually

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]

KILLS = 10
CLIENTS = 8
BATCH = 5
PAUSE_S = 0.02
TOOLS = [f"mcp:server-{number}:tool" for number in range(6)]
POLICY = '[default]\nmode = "metrics_only"\n[family."*"]\nmode = "disabled"\n'


class Load:
    """Clients that send batches to both gateways, and what became of each execution."""

    def __init__(self, urls: list[str], seed: int) -> None:
        self.sent: dict[str, dict[str, Any]] = {}
        self.acknowledged: Counter[str] = Counter()
        self.ending = asyncio.Event()
        self._chance = random.Random(seed)
        self.clients = [
            ResendingClient(
                urls,
                chance=random.Random(seed + number),
                acknowledged=lambda found: self.acknowledged.update(each["metric_id"] for each in found),
                rejected=lambda _each, reason: pytest.fail(reason),
            )
            for number in range(CLIENTS)
        ]

    async def run(self, client: ResendingClient) -> None:
        """Send batches until the end."""
        while not self.ending.is_set():
            batch = [self._made() for _ in range(BATCH)]
            self.sent |= {each["metric_id"]: each for each in batch}
            await client.send(batch)
            await asyncio.sleep(PAUSE_S)
        await client.close()

    def _made(self) -> dict[str, Any]:
        status = self._chance.choices(["success", "error"], [80, 20])[0]
        failed = {"error_class": "server"} if status == "error" else {}
        return execution(tool_name=self._chance.choice(TOOLS), status=status, emitter_id="load") | failed

    def counted(self) -> dict[str, tuple[int, int]]:
        """Return calls and failures by tool."""
        calls = Counter(each["tool_name"] for each in self.sent.values())
        failed = Counter(each["tool_name"] for each in self.sent.values() if each["status"] == "error")
        return {tool: (calls[tool], failed[tool]) for tool in calls}


async def test_rows_and_circuits_have_each_acknowledged_execution_once_after_ten_kills_of_two_gateways(
    make_settings, tmp_path
):
    chance = random.Random(23)
    (tmp_path / "policies.toml").write_text(POLICY)
    settings = make_settings(
        data_dir=tmp_path,
        clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}",
        worker_http=f"127.0.0.1:{any_free_port()}",
        policy_file=tmp_path / "policies.toml",
    )
    ports = steady_ports(2)
    gateways: list[Child] = []

    def start(number: int) -> Child:
        own = settings.model_copy(update={"gateway_http": f"127.0.0.1:{ports[number]}"})
        return switchgear("gateway", log=tmp_path / f"gateway-{number}-{chance.random()}.log", settings=own)

    worker, sink = (switchgear(name, log=tmp_path / f"{name}.log", settings=settings) for name in ("worker", "sink"))
    gateways = [start(0), start(1)]
    load = Load([f"http://127.0.0.1:{port}" for port in ports], seed=5)
    with all_ended(worker, sink):
        try:
            for child in (worker, sink):
                await asyncio.to_thread(child.wait_for_output, "ready")
            async with asyncio.TaskGroup() as clients:
                for client in load.clients:
                    clients.create_task(load.run(client))
                for kill in range(KILLS):  # while one starts again, the other has all clients, and is killed next
                    await asyncio.to_thread(gateways[kill % 2].wait_for_output, " ready")
                    await asyncio.sleep(chance.uniform(0.1, 0.5))
                    gateways[kill % 2].kill9()
                    gateways[kill % 2] = start(kill % 2)
                load.ending.set()
        finally:
            with all_ended(*gateways):
                pass

        assert set(load.acknowledged) == set(load.sent)
        assert set(load.acknowledged.values()) == {1}
        assert sum(client.resent for client in load.clients) > 0, "no kill hit a request"

        async def stored() -> list[Any]:
            rows = await asyncio.to_thread(ids, settings)
            return rows if len(rows) >= len(load.sent) else []

        assert sorted(await eventually(stored, timeout_s=HAPPEN_S, what="every execution is stored")) == sorted(
            load.sent
        )

        async def counted() -> bool:
            return sum(calls for calls, _ in (await totals(settings)).values()) >= len(load.sent)

        await eventually(counted, timeout_s=HAPPEN_S, what="every execution is counted")
        assert await totals(settings) == load.counted()


async def totals(settings: Any) -> dict[str, tuple[int, int]]:
    rows = await read_rows(settings)
    return {name: (row.total_calls, row.total_failed) for name, row in rows.items() if row.scope != "family"}


def ids(settings: Any) -> list[str]:
    """Return the ids of all rows. They come as one value, because the number of rows of an answer is limited."""
    done = run("sql", "SELECT groupArray(toString(metric_id)) FROM tool_metrics", "--json", settings=settings)
    return [each for row in json.loads(done.stdout)["rows"] for each in row[0]] if done.returncode == 0 else []
