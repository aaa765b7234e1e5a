"""The hook of Claude Code with a real broker: the ends of calls arrive in the executions topic, once each."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from aiokafka import AIOKafkaConsumer

from switchgear_cli.hook.outbox import send
from switchgear_cli.hook.state import State
from switchgear_schemas.file_lock import FileLock
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment, settings_environment
from tests.support.waiting import until


def hook(path, settings, kind, **fields):
    event = {
        "hook_event_name": kind,
        "session_id": "s-1",
        "tool_name": "mcp__weather__get",
        "tool_use_id": "t",
        "tool_input": {},
    }
    done = subprocess.run(
        [sys.executable, "-m", "switchgear_cli", "hook", "claude-code", "--state-file", str(path)],
        input=json.dumps(event | fields), env=environment(settings), capture_output=True, text=True, timeout=READY_S, check=True,
    )  # fmt: skip
    assert done.stdout == done.stderr == ""


async def events(settings):
    """Return the events in the topic."""
    consumer = AIOKafkaConsumer(settings.topics.executions, **settings.kafka.options(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        found = []
        deadline = time.monotonic() + HAPPEN_S
        while len(found) < sum(ends.values()) and time.monotonic() < deadline:
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                found += [json.loads(record.value) for record in batch]
        return found
    finally:
        await consumer.stop()


def sent(path, settings, monkeypatch):
    """Wait until the hook's sender is done, and send what it has left, because Kafka was slow or away."""
    with State(path) as state:
        until(lambda: state.posted(1) == [] or not state.is_due("sender", time.time()), HAPPEN_S)
        lock = FileLock(path.with_suffix(".sender"))
        until(lambda: not lock.is_held(), HAPPEN_S)
        state.set_due("sender", 0.0)
    for name, value in settings_environment(settings).items():
        monkeypatch.setenv(name, value)
    send(path, idle_s=5.0)


async def test_ends_of_calls_arrive_with_their_status_service_and_session(settings, tmp_path, monkeypatch):
    path = tmp_path / "hooks.db"
    hook(path, settings, "PostToolUse", tool_response=[], duration_ms=40)
    hook(path, settings, "PostToolUseFailure", error="HTTP error 503: down", duration_ms=7)
    sent(path, settings, monkeypatch)
    arrived = sorted(await events(settings), key=lambda event: event["status"])
    assert [event["status"] for event in arrived] == ["error", "success"]
    assert {event["tool_name"] for event in arrived} == {"mcp:weather:get"}
    assert {(event["service"], event["session_id"]) for event in arrived} == {("claude-code", "s-1")}
    assert arrived[0]["error_class"] == "tool"
    assert arrived[1]["execution_time_ms"] == 40


@pytest.mark.deep
async def test_events_of_a_time_without_kafka_arrive_later(settings, tmp_path, monkeypatch):
    path = tmp_path / "hooks.db"
    away = settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    hook(path, away, "PostToolUse", tool_response=[], duration_ms=40)
    sent(path, settings, monkeypatch)
    (event,) = await events(settings)
    assert event["status"] == "success"
