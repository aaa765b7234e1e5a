"""Independent processes, from a failing call to an open circuit to the row in ClickHouse."""

import json
import time

import httpx
import pytest

from switchgear_cli.local.ports import any_free_port
from tests.support.deep import some
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import all_ended, python, run, switchgear

TOOL = "mcp:maps:route"

EMITTER = """
import sys
from switchgear import Emitter
bootstrap, prefix, service, status, number = sys.argv[1:]
emitter = Emitter(bootstrap, topic_prefix=prefix, service=service)
for _ in range(int(number)):
    emitter.emit({"tool_name": "mcp:maps:route", "status": status, "execution_time_ms": 12,
                  "error_type": "ConnectError" if status == "error" else None, "error_class": "transport" if status == "error" else None})
sys.exit(0 if emitter.flush(30) else 1)
"""

# As an alerting service would write it: nothing of ours imported.
ALERTS = """
import asyncio, json, sys
from aiokafka import AIOKafkaConsumer
async def main():
    async with AIOKafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.value.decode(), flush=True)
asyncio.run(main())
"""

GUARD = """
import sys, time
from switchgear import Switchgear
bootstrap, prefix = sys.argv[1:]
gear = Switchgear(bootstrap, topic_prefix=prefix, service="guard")
assert gear.start(wait=20), "the circuits were not loaded"
deadline = time.monotonic() + 60
gear.try_acquire("mcp:maps:route").success()  # a healthy process among the callers: now two must fail
gear.flush()
while time.monotonic() < deadline:
    answer = gear.try_acquire("mcp:maps:route")
    if not answer:
        print("REFUSED", answer.state, answer.retry_after_s, flush=True)
        break
    answer.release()
    print("ALLOWED", flush=True)
    time.sleep(0.05)
print("DONE", flush=True)
# Keep asking: the circuit lets exactly one probe through after its wait, and the success closes it.
while time.monotonic() < deadline:
    answer = gear.try_acquire("mcp:maps:route")
    if answer:
        answer.success()
        print("CALLED", answer.lease_id or "-", flush=True)
        if not answer.lease_id:
            break
    time.sleep(0.05)
gear.close()
"""

POLICY = """
[default]
wait_duration_in_open_state_s = 3
max_wait_duration_in_open_state_s = 3
"""


@pytest.fixture
def system(make_settings, tmp_path):
    """Worker, sink and API as processes of their own."""
    policy = tmp_path / "policies.toml"
    policy.write_text(POLICY)
    settings = make_settings(
        data_dir=tmp_path,
        clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}",
        worker_http=f"127.0.0.1:{any_free_port()}",
        policy_file=policy,
    )
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
    sink = switchgear("sink", log=tmp_path / "sink.log", settings=settings)
    with all_ended(worker, sink):
        for child, address in ((worker, settings.worker_http), (sink, settings.api_http)):
            child.wait_until(lambda address=address: answers(f"http://{address}/readyz"))
        yield settings


def answers(url):
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def eventually(condition, what, timeout_s=HAPPEN_S):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {timeout_s} s: {what}")


def sql(settings, statement):
    done = run("sql", statement, "--json", settings=settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def test_a_tool_that_fails_in_two_processes_is_refused_in_a_third_and_recovers_by_one_probe(system, tmp_path):
    address, prefix = system.kafka_bootstrap_servers, system.topic_prefix
    alerts = python(ALERTS, address, system.topics.circuits, log=tmp_path / "alerts.log")
    guard = python(GUARD, address, prefix, log=tmp_path / "guard.log")
    with all_ended(alerts, guard):
        guard.wait_for_output("ALLOWED")
        emitters = [
            python(EMITTER, address, prefix, f"agent-{n}", "error", "15", log=tmp_path / f"e{n}.log") for n in (1, 2)
        ]
        with all_ended(*emitters):
            assert [emitter.wait_for_exit(READY_S) for emitter in emitters] == [0, 0]
        guard.wait_for_output("REFUSED open", timeout_s=READY_S)
        assert guard.wait_for_exit(READY_S) == 0, guard.output()
        records = [json.loads(line) for line in eventually(lambda: closed(alerts), "closed in the circuits topic")]

    states = [record["state"] for record in records]
    assert states == ["open", "half_open", "closed"]
    opened, probing, closing = records
    assert opened["cause"]["rule"] == "cusum"
    assert opened["cause"]["value"] >= opened["cause"]["threshold"]
    assert opened["cause"]["reporters"] == 2
    assert opened["last_error"] == "ConnectError"
    assert [lease["emitter_id"].startswith("guard@") for lease in probing["leases"]] == [True]
    assert [record["version"] for record in records] == [1, 2, 3]
    assert closing["counts"]["total_failed"] == 30

    probes = [line for line in guard.output().splitlines() if line.startswith("CALLED") and line != "CALLED -"]
    assert len(probes) == 1

    # The same story is in ClickHouse, and the command line shows it.
    eventually(
        lambda: (
            sql(system, f"SELECT count() FROM tool_metrics WHERE tool_name = '{TOOL}' AND status = 'error'") == [[30]]
        ),
        "30 rows",
    )
    eventually(lambda: sql(system, "SELECT count() FROM circuit_transitions") == [[3]], "3 transitions")
    assert sql(system, "SELECT count(DISTINCT emitter_id) FROM tool_metrics WHERE status = 'error'") == [[2]]
    listed = run("circuits", settings=system)
    assert listed.returncode == 0, listed.stderr
    assert TOOL in listed.stdout
    assert "closed" in listed.stdout


def closed(alerts):
    lines = alerts.output().splitlines()
    return lines if any(json.loads(line)["state"] == "closed" for line in lines if line.endswith("}")) else None


@pytest.mark.deep
@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "calls", "distinct", "errors"),
    some(
        [
            ("agent_calls_livemcp", 814, 814, 14),
            ("agent_calls_tau_airline", 1_164, 1_164, 73),
            # The file itself holds 706 calls twice, to the letter: 110,649 lines of 109,943 calls.
            ("rpc_calls_nezha", 110_649, 109_943, 0),
        ],
        1,
    ),
)
def test_every_real_call_of_a_recording_is_stored(system, shared, file, calls, distinct, errors):
    done = run("emit", str(shared / "data" / f"{file}.jsonl.gz"), "--restamp", settings=system, timeout_s=READY_S)
    assert done.returncode == 0, done.stderr
    count = "SELECT count(), uniqExact(metric_id), countIf(status = 'error') FROM tool_metrics"
    eventually(lambda: sql(system, "SELECT count() FROM tool_metrics")[0][0] >= calls, "every row", HAPPEN_S)
    assert sql(system, count) == [[calls, distinct, errors]]
