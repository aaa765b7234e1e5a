"""Without a broker the emitter costs its caller only the buffer."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from switchgear import Emitter, Event, SwitchgearError
from tests.support.limits import ANSWER_S, READY_S
from tests.support.waiting import holds_within

NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def emitter():
    made = Emitter(NO_BROKER, service="test", buffer_size=100)
    yield made
    made.close(0)


def test_making_an_emitter_starts_no_thread():
    before = set(threading.enumerate())
    Emitter(NO_BROKER)
    assert set(threading.enumerate()) <= before


def test_emitting_never_raises_and_is_quick(emitter):
    emitter.emit(Event("t", "success"))
    began = time.perf_counter()
    for _ in range(1_000):
        assert emitter.emit(Event("t", "success"))
    assert time.perf_counter() - began < 5, "0.01 s on an idle machine"


def test_events_beyond_the_buffer_are_counted_as_dropped_and_logged_once(emitter, caplog):
    for _ in range(250):
        emitter.emit(Event("t", "success"))
    assert caplog.text.count("the buffer of 100 events is full") == 1
    status = emitter.status()
    assert (status.emitted, status.dropped, status.buffered, status.acknowledged) == (250, 150, 100, 0)
    assert not status.connected


def test_the_status_says_why_nothing_is_sent(emitter):
    emitter.emit(Event("t", "success"))
    deadline = time.monotonic() + 10
    while emitter.status().last_error is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert emitter.status().alive
    assert "Kafka at 127.0.0.1:1 is not usable" in (emitter.status().last_error or "")


def test_a_dict_that_is_emitted_repeatedly_keeps_the_values_of_each_time():
    emitter = Emitter(NO_BROKER)
    emitter.idle = False  # no thread: the buffer is read by hand
    fields = {"tool_name": "t", "status": "success"}
    for number in range(3):
        fields["metadata"] = {"number": number}
        emitter.emit(fields)
        fields["metadata"]["number"] = -1
    assert [event["metadata"]["number"] for event, _ in emitter.buffer.take(3)] == [0, 1, 2]
    emitter.close(0)


def test_a_flush_without_a_broker_ends_in_time_and_returns_false(emitter):
    emitter.emit(Event("t", "success"))
    began = time.perf_counter()
    assert emitter.flush(0.02) is False
    assert time.perf_counter() - began < 2


def test_a_flush_without_events_returns_at_once(emitter):
    assert emitter.flush(0) is True


def test_closing_counts_unsent_events_as_dropped_and_logs_them(emitter, caplog):
    emitter.emit(Event("t", "success"))
    with caplog.at_level(logging.ERROR, "switchgear.emitter"):
        assert emitter.close(0.1) is False
    assert "closed with 1 events that Kafka did not acknowledge" in caplog.text
    status = emitter.status()
    assert (status.dropped, status.buffered, status.alive) == (1, 0, False)


def test_emit_returns_false_after_closing(emitter):
    emitter.close(0)
    assert emitter.emit(Event("t", "success")) is False
    assert emitter.close(0) is True
    with pytest.raises(SwitchgearError, match="closed"):
        emitter.submit([("t", b"{}")])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((None, b"{}"), r"Record 1 is \(None, bytes\)"),
        (("t", "{}"), r"Record 1 is \('t', str\)"),
        (("t", None), r"Record 1 is \('t', NoneType\)"),
        (("t\ud83d", b"{}"), r"Record 1 is \('t\\ud83d', bytes\)"),
    ],
)
def test_submit_names_the_index_of_an_invalid_record_and_sends_none(emitter, record, message):
    with pytest.raises(SwitchgearError, match=message):
        emitter.submit([("t", b"{}"), record])
    assert emitter.status().emitted == 0
    assert emitter.flush(0)


async def test_a_send_that_waits_for_a_broker_ends_with_the_emitter(emitter):
    waiting = asyncio.ensure_future(emitter.send("t", b'{"tool_name":"t","status":"success"}'))
    assert await holds_within(lambda: emitter.status().last_error, ANSWER_S, 0.005)
    assert not waiting.done()
    await asyncio.to_thread(emitter.close, 0)
    with pytest.raises(SwitchgearError, match="closed before"):
        await asyncio.wait_for(waiting, ANSWER_S)


def test_connecting_without_a_broker_ends_in_time(emitter):
    began = time.perf_counter()
    assert emitter.connect(0.02) is False
    assert time.perf_counter() - began < 3


@pytest.mark.slow
def test_the_interpreter_ends_promptly_without_a_broker():
    code = f"from switchgear import Emitter, Event; Emitter({NO_BROKER!r}).emit(Event('t', 'success'))"
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - began < 15


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_identity_and_an_empty_buffer():
    code = f"""
import os, sys, threading
from switchgear import Emitter, Event
emitter = Emitter({NO_BROKER!r}, exit_timeout=0)
emitter.emit(Event("t", "success"))
parent = emitter.emitter_id
child = os.fork()
if child == 0:
    ok = emitter.emitter_id != parent and emitter.status().emitted == 0 and not emitter.status().alive
    emitter.emit(Event("t", "success"))
    ok = ok and emitter.status().emitted == 1 and emitter.status().alive
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert emitter.status().emitted == 1 and emitter.status().alive and emitter.emitter_id == parent
sys.exit(os.waitstatus_to_exitcode(status))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
