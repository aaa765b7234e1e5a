"""A plain success is encoded in bulk, and says what an event of its own would have said."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.emitter.encode import encode_event, encode_items, encode_successes
from switchgear.emitter.event import Event
from switchgear.emitter.moments import Moments
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.wire import decode_execution

WHO = {"emitter_id": "planner@host-1", "service": "planner"}
OFFSET = 1_800_000_000.0


def moments():
    return Moments(clock=lambda: 0.0, wall=lambda: OFFSET)


def pair(tool, value):
    return tool, value


@given(
    tool=st.text(min_size=1, max_size=40),
    began=st.floats(0, 1e7),
    took=st.floats(0, 1e4),
    generation=st.none() | st.integers(0, 2**40),
)
def test_it_says_what_an_event_would_say(tool, began, took, generation):
    ended = began + took
    (value,) = encode_successes([(tool, began, ended, generation)], moments=moments(), **WHO)
    event = encode_event(Event(tool, "success", (ended - began) * 1000, generation), OFFSET + ended, **WHO)
    found, wanted = (ToolExecution.model_validate_json(each) for each in (value, event))
    assert abs((found.recorded_at - wanted.recorded_at).total_seconds()) <= 2e-6
    assert found.metric_id.version == 7
    assert abs(found.execution_time_ms - wanted.execution_time_ms) < 0.000_6
    own = {"metric_id", "recorded_at", "execution_time_ms"}
    assert found.model_dump(exclude=own) == wanted.model_dump(exclude=own)
    assert decode_execution(value).tool_name == tool


def test_what_an_event_leaves_out_is_left_out():
    (bulk,) = encode_successes([("t", 0.0, 0.5, None)], moments=moments(), emitter_id="me", service="")
    event = encode_event(Event("t", "success", 500.0), OFFSET, emitter_id="me", service="")
    assert json.loads(bulk).keys() == json.loads(event).keys()


def test_the_order_of_calls_is_kept_whatever_they_were():
    items = [
        ("a", 0.0, 1.0, 1),
        ("b", 0.0, 2.0, 1),
        (Event("a", "error"), 3.0 + OFFSET),
        ("a", 0.0, 4.0, 1),
        ({"tool_name": "c", "status": "timeout"}, 5.0 + OFFSET),
        ("b", 0.0, 6.0, 1),
    ]
    found = encode_items(items, pair, moments=moments(), failed=pytest.fail, **WHO)
    assert [tool for tool, _ in found] == ["a", "b", "a", "a", "c", "b"]
    assert [json.loads(value)["status"] for _, value in found] == [
        "success", "success", "error", "success", "timeout", "success",
    ]  # fmt: skip
    times = [ToolExecution.model_validate_json(value).recorded_at for _, value in found]
    assert times == sorted(times)


def test_one_that_can_not_be_encoded_is_told_of_and_the_others_go():
    broken = ({"tool_name": "t", "status": "no such status"}, OFFSET)
    told = []
    items = [("a", 0.0, 1.0, 1), broken, ("b", 0.0, 1.0, 1)]
    found = encode_items(items, pair, moments=moments(), failed=told.append, **WHO)
    assert [tool for tool, _ in found] == ["a", "b"]
    assert [error.field for error in told] == ["status"]


def test_nothing_is_nothing():
    assert encode_items([], pair, moments=moments(), failed=pytest.fail, **WHO) == []


@pytest.mark.parametrize("ended", [0.0, 0.999999, 1.0, 59.9999994, 60.0, 86_399.999999])
def test_an_instant_is_exact_to_the_microsecond_at_the_turn_of_seconds(ended):
    values = encode_successes([("t", 0.0, ended, 1), ("t", 0.0, ended + 0.001, 1)], moments=moments(), **WHO)
    for shift, value in zip((0.0, 0.001), values, strict=True):
        at = ToolExecution.model_validate_json(value).recorded_at.timestamp()
        assert at == pytest.approx(OFFSET + ended + shift, abs=2e-6)


def test_calls_before_and_after_the_machine_slept_keep_their_own_time_in_one_batch():
    now, wall = [100.0], [OFFSET]
    clocks = Moments(clock=lambda: now[0], wall=lambda: wall[0])
    now[0], wall[0] = 110.0, OFFSET + 10 + 3_600
    clocks.look()
    ends = [105.0, 110.5, 105.1, 110.6]
    values = encode_successes([("t", 0.0, ended, 1) for ended in ends], moments=clocks, **WHO)
    times = [ToolExecution.model_validate_json(value).recorded_at.timestamp() - OFFSET for value in values]
    assert times == pytest.approx([5.0, 3_610.5, 5.1, 3_610.6], abs=1e-5)


def test_a_thousand_at_once_have_a_thousand_identities_in_order():
    now = time.monotonic()
    values = encode_successes([("t", now, now, 1)] * 10_000, moments=Moments(), **WHO)
    ids = [json.loads(value)["metric_id"] for value in values]
    assert len(set(ids)) == 10_000
    assert ids == sorted(ids)
