"""``switchgear emit``: what it says it sent is in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from tests.integration.producers.circuits import executions
from tests.support.kafka import own_kafka
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment, run, switchgear


def log(settings) -> list[dict]:
    async def read():
        consumer = await executions(settings)
        try:
            ends = await consumer.end_offsets(consumer.assignment())
            found = []
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=200, max_records=20_000)).values():
                    found.extend(json.loads(record.value) for record in records)
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), HAPPEN_S))


def lines(count: int, *, start: float = 0.0, step: float = 0.0, **changes) -> bytes:
    began = datetime.now(UTC).timestamp() - 100 + start
    events = (
        {
            "tool_name": f"t{number % 5}",
            "status": "success",
            "metadata": {"number": number},
            "recorded_at": datetime.fromtimestamp(began + number * step, UTC).isoformat(),
        }
        | changes
        for number in range(count)
    )
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_a_gzipped_file_is_sent_whole(settings, tmp_path):
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(gzip.compress(lines(5_000)))
    ended = run("emit", str(path), settings=settings)
    assert ended.returncode == 0, ended.stderr
    assert "5,000 sent, 5,000 acknowledged, 0 refused" in ended.stdout
    assert "5,000 lines had no metric_id" in ended.stderr
    found = log(settings)
    assert Counter(event["metadata"]["number"] for event in found) == Counter(range(5_000))
    assert len({event["metric_id"] for event in found}) == 5_000


def test_good_lines_go_bad_ones_are_named_and_the_exit_code_says_so(settings, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(2) + b"junk\n\n" + b'{"tool_name":"t","status":"weird"}\n' + lines(1, colour="blue"))
    ended = run("emit", str(path), settings=settings)
    assert ended.returncode == 1
    assert "line 3 is not an execution: the message is not JSON" in ended.stderr
    assert "line 5 is not an execution: status:" in ended.stderr
    assert "3 sent, 3 acknowledged, 2 refused" in ended.stdout
    found = log(settings)
    assert len(found) == 3
    assert [event for event in found if event.get("colour") == "blue"]


def test_the_standard_input_is_sent_and_restamped(settings):
    ended = subprocess.run(
        [sys.executable, "-m", "switchgear_cli", "emit", "-", "--restamp", "--service", "replayed"],
        input=lines(100, start=-86_400 * 90, step=1.0), capture_output=True, check=False, timeout=READY_S, env=environment(settings),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    stamps = sorted(datetime.fromisoformat(event["recorded_at"]) for event in log(settings))
    assert abs((datetime.now(UTC) - stamps[-1]).total_seconds()) < 30
    assert (stamps[-1] - stamps[0]).total_seconds() == pytest.approx(99)
    assert {event["service"] for event in log(settings)} == {"replayed"}


def test_a_recording_is_paced_by_its_own_clock(settings, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(5, step=10.0))
    began = time.monotonic()
    ended = run("emit", str(path), "--speed", "20", settings=settings)
    assert ended.returncode == 0, ended.stderr
    assert 2.0 <= time.monotonic() - began < 20
    assert "5 sent, 5 acknowledged" in ended.stdout


def test_a_dry_run_sends_nothing_and_needs_no_broker(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(3))
    ended = run("emit", str(path), "--dry-run", "--bootstrap-servers", "127.0.0.1:1")
    assert ended.returncode == 0, ended.stderr
    assert "3 lines would be sent, 0 refused" in ended.stdout


def test_a_broker_that_is_away_is_one_sentence_in_time(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(3))
    began = time.monotonic()
    ended = run("emit", str(path), "--bootstrap-servers", "127.0.0.1:1", "--timeout", "1")
    assert ended.returncode == 1
    assert time.monotonic() - began < 20
    assert "No Kafka broker at 127.0.0.1:1 was ready within 1 s, nothing was sent" in ended.stderr
    assert "switchgear up" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_topics_that_do_not_exist_are_named(kafka, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(3))
    ended = run("emit", str(path), "--timeout", "2", settings=kafka.settings())
    assert ended.returncode == 1
    assert "switchgear topics ensure" in ended.stderr


def test_a_missing_file_is_reported_before_kafka_is_required():
    began = time.monotonic()
    done = run("emit", "nowhere.jsonl", extra={"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    assert done.returncode == 1
    assert (
        done.stderr == "switchgear: There is no file nowhere.jsonl. Check the path, or give - for the standard input.\n"
    )
    assert time.monotonic() - began < 10


def test_a_missing_file_and_a_mistyped_option_are_one_sentence(settings):
    missing = run("emit", "nowhere.jsonl", settings=settings)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "There is no file nowhere.jsonl" in missing.stderr
    mistyped = run("emit", "--restmap", settings=settings)
    assert mistyped.returncode == 2
    assert "--restmap" in mistyped.stderr


def test_a_damaged_file_sends_what_came_before_and_says_where(settings, tmp_path):
    path = tmp_path / "cut.gz"
    whole = gzip.compress(lines(5_000))
    path.write_bytes(whole[: len(whole) // 2])
    ended = run("emit", str(path), settings=settings)
    assert ended.returncode == 1
    assert "damaged gzip file after line" in ended.stderr
    sent = len(log(settings))
    assert sent > 100
    assert f"{sent:,} acknowledged" in ended.stdout


def test_ctrl_c_reports_exactly_what_is_in_the_log(settings, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(200, step=0.5))
    with switchgear("emit", str(path), "--speed", "1", log=tmp_path / "emit.log", settings=settings) as child:
        deadline = time.monotonic() + 30
        while not log(settings) and time.monotonic() < deadline:
            time.sleep(0.3)
        assert child.interrupt() == 130
    output = child.output()
    count = len(log(settings))
    assert 0 < count < 200
    assert f"{count} sent, {count} acknowledged" in output
    assert "interrupted" in output
    assert "Traceback" not in output


@pytest.mark.deep
def test_a_broker_that_goes_away_ends_emit_with_the_number_of_acknowledged_events(tmp_path: Path):
    port = any_free_port()
    settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="away.", topic_partitions=4)
    path = tmp_path / "calls.jsonl"
    path.write_bytes(lines(400, step=0.5))
    with own_kafka(tmp_path / "kafka", port):
        asyncio.run(ensure_topics(settings))
        child = switchgear(
            "emit", str(path), "--speed", "10", "--timeout", "3", log=tmp_path / "emit.log", settings=settings
        )
        deadline = time.monotonic() + 30
        while not log(settings) and time.monotonic() < deadline:
            time.sleep(0.3)
    with child:
        assert child.wait_for_exit(READY_S) == 1
    output = child.output()
    assert "Kafka has acknowledged nothing for 3 s" in output
    assert "not acknowledged" in output
    with own_kafka(tmp_path / "kafka", port):
        count = len(log(settings))
    acknowledged = int(output.split(" sent, ")[1].split(" acknowledged")[0].replace(",", ""))
    assert 0 < acknowledged <= count


@pytest.mark.deep
@pytest.mark.shared
def test_a_hundred_thousand_real_calls_are_all_in_the_log(settings, shared):
    ended = run(
        "emit", str(shared / "data" / "rpc_calls_nezha.jsonl.gz"), "--restamp", settings=settings, timeout_s=READY_S
    )
    assert ended.returncode == 0, ended.stderr
    assert "110,649 sent, 110,649 acknowledged, 0 refused" in ended.stdout
    assert len(log(settings)) == 110_649


@pytest.mark.shared
def test_real_agent_calls_keep_their_errors(settings, shared):
    for name in ("agent_calls_tau_airline", "agent_calls_livemcp"):
        ended = run("emit", str(shared / "data" / f"{name}.jsonl.gz"), settings=settings)
        assert ended.returncode == 0, ended.stderr
        assert "stamped with the time of sending" in ended.stderr
    found = log(settings)
    assert (len(found), sum(event["status"] == "error" for event in found)) == (1_164 + 814, 73 + 14)
