"""Refusals are reported in bounded number, and none is left out of the sum."""

from __future__ import annotations

import threading

import pytest

from switchgear import Emitter, Rejection
from switchgear.guard.report import RefusalReporter
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def emitter():
    made = Emitter("127.0.0.1:1")
    made._idle = False  # no thread: the buffer is read by hand
    made._rouse = lambda urgent: None
    yield made
    made.close(0)


@pytest.fixture
def reporter(emitter, clock):
    return RefusalReporter(emitter, clock)


def refusal(tool="t"):
    return Rejection(tool, "open", "fleet", generation=4)


def sent(emitter):
    return [event for event, _ in emitter._buffer.take(100)]


def test_the_first_refusal_goes_at_once(reporter, emitter):
    reporter.refused(refusal(), user_id="u")
    (event,) = sent(emitter)
    assert (event.status, event.served_by, event.generation, event.user_id) == ("rejected", "none", 4, "u")
    assert event.metadata == {"refused": 1, "refused_by": "fleet"}
    assert not event.probe_requested


def test_a_hot_loop_makes_one_event_a_second_that_stands_for_all(reporter, emitter, clock):
    for _ in range(1_000):
        reporter.refused(refusal())
    clock.now += 1
    reporter.refused(refusal())
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1_000]


def test_every_tool_has_its_own_second(reporter, emitter):
    for tool in "abc":
        reporter.refused(refusal(tool))
    assert [event.tool_name for event in sent(emitter)] == ["a", "b", "c"]


def test_the_rest_goes_with_the_sweep(reporter, emitter, clock):
    for _ in range(10):
        reporter.refused(refusal())
    reporter.sweep()
    assert [event.metadata["refused"] for event in sent(emitter)] == [1]
    clock.now += 1
    reporter.sweep()
    reporter.sweep()
    assert [event.metadata["refused"] for event in sent(emitter)] == [9]


def test_a_last_sweep_sends_everything_at_once(reporter, emitter):
    reporter.refused(refusal())
    reporter.refused(refusal())
    reporter.sweep(everything=True)
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1]


def test_a_request_for_a_probe_always_goes(reporter, emitter):
    for _ in range(3):
        reporter.refused(refusal(), probe_requested=True)
    assert [event.probe_requested for event in sent(emitter)] == [True, True, True]


def test_a_fallback_that_answered_is_named(reporter, emitter):
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


def test_refusals_that_take_no_lock_are_summed_with_the_others(reporter, emitter, clock):
    reporter.refused_again(refusal(), clock())
    for _ in range(10):
        reporter.refused_again(refusal(), clock())
        reporter.refused(refusal())
    assert [event.metadata["refused"] for event in sent(emitter)] == [1]
    clock.now += 1
    reporter.refused_again(refusal(), clock())
    assert [event.metadata["refused"] for event in sent(emitter)] == [21]
    reporter.sweep(everything=True)
    assert sent(emitter) == []


def test_no_refusal_of_many_threads_is_left_out_or_told_twice(reporter, emitter, clock):
    def refuse():
        for _ in range(5_000):
            reporter.refused_again(refusal(), clock())

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    told = 0
    while any(thread.is_alive() for thread in threads):
        reporter.sweep(everything=True)
        told += sum(event.metadata["refused"] for event in sent(emitter))
    reporter.sweep(everything=True)
    told += sum(event.metadata["refused"] for event in sent(emitter))
    assert told == 20_000


def at_once(deed):
    """``deed`` in a thread that is left behind where it waits for itself."""
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_a_signal_handler_may_refuse_and_sweep_amid_any_method(reporter, emitter, clock):
    def amid():
        with reporter._lock:  # the thread is in a method, and the handler runs in the thread
            reporter.refused(refusal())
            reporter.refused(refusal())
            reporter.sweep(everything=True)

    at_once(amid)
    assert [event.metadata["refused"] for event in sent(emitter)] == [1, 1]


def test_refusals_that_a_signal_handler_sweeps_amid_a_sweep_are_told_once(reporter, emitter, clock):
    for _ in range(4):
        reporter.refused(refusal())
    known = reporter._tools["t"]
    tally = known.tally

    def interrupted():
        known.tally = tally
        counted = known.tally()
        reporter.refused(refusal())
        reporter.sweep(everything=True)
        return counted

    known.tally = interrupted
    at_once(lambda: reporter.sweep(everything=True))
    reporter.sweep(everything=True)
    counts = [event.metadata["refused"] for event in sent(emitter)]
    assert min(counts) > 0
    assert sum(counts) == 5
