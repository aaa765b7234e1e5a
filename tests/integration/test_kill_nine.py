"""`kill -9` of the worker and of the sink under load: every count is exact all the same."""

import asyncio
import json
import random
import time

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_stream.inspect import read_rows, totals
from tests.support.limits import READY_S
from tests.support.processes import all_ended, run, switchgear
from tests.support.recount import recount

TOOLS = [f"mcp:server-{number}:tool" for number in range(30)]
EVENTS = 60_000
KILLS = 3


def write_history(path, seed):
    """Lines with a known answer: some tools healthy, some failing, some refused, of five processes."""
    rng = random.Random(seed)
    with path.open("w") as file:
        for _ in range(EVENTS):
            tool = rng.choice(TOOLS)
            status = rng.choices(["success", "error", "timeout", "cancelled", "rejected"], [80, 12, 4, 1, 3])[0]
            event = {
                "tool_name": tool,
                "status": status,
                "execution_time_ms": rng.randrange(2000),
                "emitter_id": f"p{rng.randrange(5)}",
            }
            if status == "error":
                event["error_class"] = rng.choice(["transport", "server", "tool", "invalid_input", None])
            file.write(json.dumps(event) + "\n")


@pytest.mark.deep
@pytest.mark.timeout(420)
async def test_counters_and_rows_are_exact_after_worker_and_sink_were_killed_again_and_again(make_settings, tmp_path):
    rng = random.Random(11)
    settings = make_settings(
        data_dir=tmp_path,
        clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}",
        worker_http=f"127.0.0.1:{any_free_port()}",
        worker_session_timeout_s=6,
        sink_batch_max_rows=2_000,
    )
    write_history(tmp_path / "calls.jsonl", seed=5)

    def start(name):
        return switchgear(name, log=tmp_path / f"{name}.log", settings=settings)

    children = {name: start(name) for name in ("worker", "sink")}
    emitter = switchgear("emit", str(tmp_path / "calls.jsonl"), log=tmp_path / "emit.log", settings=settings)
    killed = 0
    try:
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(1.0, 4.0))
            for name, child in children.items():
                child.kill9()
                killed += 1
                children[name] = start(name)
        with all_ended(emitter):
            assert emitter.wait_for_exit(READY_S) == 0, emitter.output()

        wanted = await recount(settings.kafka_bootstrap_servers, settings.topics.executions)
        assert sum(tally.calls + tally.rejected for tally in wanted.values()) == EVENTS
        assert killed == 2 * KILLS

        await caught_up(settings, wanted)
        rows = {name: row for name, row in (await read_rows(settings)).items() if row.scope != "family"}
        assert {
            name: (row.total_calls, row.total_failed, row.total_rejected, row.late) for name, row in rows.items()
        } == {name: (tally.calls, tally.failed, tally.rejected, 0) for name, tally in wanted.items()}
        assert stored(settings) == {
            (name, status): number for name, tally in wanted.items() for status, number in tally.statuses.items()
        }
        assert sql(
            settings, "SELECT count(), uniqExact(kafka_partition, kafka_offset), uniqExact(metric_id) FROM tool_metrics"
        ) == [[EVENTS, EVENTS, EVENTS]]
    finally:
        with all_ended(emitter, *children.values()):
            pass


async def caught_up(settings, wanted, timeout_s=2 * READY_S):
    """Until both have seen everything; what they made of it is judged afterwards."""
    calls = sum(tally.calls for tally in wanted.values())
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        rows = await read_rows(settings)
        counted = totals(rows)["total_calls"]
        if counted >= calls and sum(stored(settings).values()) >= EVENTS:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"counted {counted} of {calls}, stored {sum(stored(settings).values())} of {EVENTS}")


def stored(settings):
    return {
        (name, status): number
        for name, status, number in sql(
            settings, "SELECT tool_name, status, count() FROM tool_metrics GROUP BY tool_name, status"
        )
    }


def sql(settings, statement):
    done = run("sql", statement, "--json", settings=settings)
    return json.loads(done.stdout)["rows"] if done.returncode == 0 else []
