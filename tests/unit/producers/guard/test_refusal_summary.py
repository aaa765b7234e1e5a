"""Refusals are sent at most once a second for each tool, and every one is counted."""

from __future__ import annotations

import json
import threading

import pytest
from msgspec.structs import replace

from switchgear import Emitter
from switchgear.emitter.encode import encode_event
from switchgear.guard.refusal_summary import RefusalReporter
from switchgear.guard.rejections import Caller, Rejection
from switchgear_schemas.cause import Cause
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def emitter():
    made = Emitter("127.0.0.1:1")
    made.idle = False  # no thread: the buffer is read by hand
    made.wake = lambda urgent: None
    yield made
    made.close(0)


@pytest.fixture
def reporter(emitter, clock):
    return RefusalReporter(emitter, clock)


def refusal(tool="t"):
    return Rejection(tool, "open", "fleet", generation=4)


def sent(emitter):
    return [event for event, _ in emitter.buffer.take(100)]


def test_the_first_refusal_is_sent_at_once(reporter, emitter):
    reporter.refused(refusal(), caller=Caller("u"))
    (event,) = sent(emitter)
    assert (event.status, event.served_by, event.generation, event.user_id) == ("rejected", "none", 4, "u")
    assert event.metadata == {"refused": 1, "refused_by": "fleet"}
    assert not event.probe_requested


def test_a_refused_loop_sends_one_event_per_second_with_the_number_of_refusals(reporter, emitter, clock):
    for _ in range(1_000):
        reporter.refused(refusal())
    clock.now += 1
    reporter.refused(refusal())
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1_000]


def test_refusals_of_two_tools_are_summed_separately(reporter, emitter):
    for tool in "abc":
        reporter.refused(refusal(tool))
    assert [event.tool_name for event in sent(emitter)] == ["a", "b", "c"]


def test_sweep_sends_the_refusals_that_waited(reporter, emitter, clock):
    for _ in range(10):
        reporter.refused(refusal())
    reporter.sweep()
    assert [event.metadata["refused"] for event in sent(emitter)] == [1]
    clock.now += 1
    reporter.sweep()
    reporter.sweep()
    assert [event.metadata["refused"] for event in sent(emitter)] == [9]


def test_sweep_of_everything_sends_refusals_at_once(reporter, emitter):
    reporter.refused(refusal())
    reporter.refused(refusal())
    reporter.sweep(everything=True)
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1]


def test_a_request_for_a_probe_is_sent_at_once(reporter, emitter):
    for _ in range(3):
        reporter.refused(refusal(), probe_requested=True)
    assert [event.probe_requested for event in sent(emitter)] == [True, True, True]


def test_the_refusal_event_names_the_fallback_that_served(reporter, emitter):
    reporter.refused(refusal(), served_by="fallback", fallback_tool="b")
    (event,) = sent(emitter)
    assert (event.served_by, event.fallback_tool) == ("fallback", "b")


def test_tools_not_refused_for_a_minute_are_forgotten(reporter, emitter, clock):
    reporter.refused(refusal())
    clock.now += 61
    reporter.sweep()
    assert reporter._tools == {}


def test_a_forked_child_reports_its_own_refusals_alone(reporter, emitter):
    reporter.refused(refusal())
    reporter.refused(refusal())
    reporter.forked()
    reporter.sweep(everything=True)
    assert len(sent(emitter)) == 1


@pytest.mark.slow
def test_refusals_of_many_threads_are_each_counted_once(reporter, emitter, clock):
    def refuse():
        for _ in range(5_000):
            reporter.refused(refusal())

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    reported = 0
    while any(thread.is_alive() for thread in threads):
        reporter.sweep(everything=True)
        reported += sum(event.metadata["refused"] for event in sent(emitter))
    reporter.sweep(everything=True)
    reported += sum(event.metadata["refused"] for event in sent(emitter))
    assert reported == 20_000


def at_once(deed):
    """``deed`` in a thread that is left behind where it waits for itself."""
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    assert not thread.is_alive()


def test_a_signal_handler_may_refuse_and_sweep_within_any_method(reporter, emitter, clock):
    def nested():
        with reporter._lock:  # the thread is in a method, and the handler runs in the thread
            reporter.refused(refusal())
            reporter.refused(refusal())
            reporter.sweep(everything=True)

    at_once(nested)
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1]


def local(tool="t", **fields):
    cause = Cause("consecutive_failures", 5.0, 5.0, 5, failed=5)
    return Rejection(
        tool, "open", "local", "consecutive_failures", 59.9, "ConnectionError: down", cause=cause, **fields
    )


CIRCUIT = {
    "state": "open", "scope": "tool", "retry_after_s": 59.9, "last_error": "ConnectionError: down",
    "cause": {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5, "failed": 5},
}  # fmt: skip


def test_a_refusal_by_a_local_circuit_carries_its_state_and_cause(reporter, emitter):
    reporter.refused(local())
    reporter.refused(local(scope="user"), caller=Caller("ana"), probe_requested=True)
    first, second = sent(emitter)
    assert first.metadata == {"refused": 1, "refused_by": "local"} | CIRCUIT
    assert second.metadata == {"refused": 0, "refused_by": "local"} | CIRCUIT | {"scope": "user"}


def test_a_summed_refusal_names_its_source(reporter, emitter, clock):
    for _ in range(3):
        reporter.refused(local())
        reporter.refused(refusal("fleets"))
    sent(emitter)
    clock.now += 1
    reporter.sweep()
    assert {event.tool_name: event.metadata for event in sent(emitter)} == {
        "t": {"refused": 2, "refused_by": "local"} | CIRCUIT,
        "fleets": {"refused": 2, "refused_by": "fleet"},
    }


def test_refusals_of_one_tool_by_its_circuit_and_by_a_sessions_limit_are_not_summed_up_together(
    reporter, emitter, clock
):
    for _ in range(4):
        reporter.refused(local())
    for _ in range(10):
        reporter.refused(Rejection("t", "open", "session", "the budget is spent"))
    reporter.sweep(everything=True)
    reported: dict[str, int] = {}
    for event in sent(emitter):
        reported[event.metadata["refused_by"]] = (
            reported.get(event.metadata["refused_by"], 0) + event.metadata["refused"]
        )
    assert reported == {"local": 4, "session": 10}


def test_an_error_with_a_lone_surrogate_leaves_the_metadata_readable(reporter, emitter):
    reporter.refused(replace(local(), last_error="no such file: \ud800"))
    (event,) = sent(emitter)
    encoded = encode_event(event, 1_800_000_000.0, emitter_id="e", service="s")
    assert json.loads(encoded)["metadata"]["refused_by"] == "local"


def test_a_long_last_error_is_cut_in_the_refusal_event(reporter, emitter):
    reporter.refused(replace(local(), last_error="x" * 100_000))
    (event,) = sent(emitter)
    assert len(event.metadata["last_error"]) <= 300
