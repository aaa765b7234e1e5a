"""Plain successes are encoded in bulk, with the same content as single events."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.emitter.encode import encode_event, encode_items, encode_successes
from switchgear.emitter.event import Event
from switchgear.emitter.record_batch import singles
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.wire import decode_execution
from tests.support.table import table

WHO = {"emitter_id": "planner@host-1", "service": "planner"}
OFFSET = 1_800_000_000.0


def encoded(items, who=None):
    """Return the encoded plain successes in order."""
    return [each.values[0] for each in singles(encode_successes(items, clock_offset=OFFSET, **(who or WHO)))]


@pytest.mark.slow
@given(
    tool=st.text(min_size=1, max_size=40),
    began=st.floats(0, 1e7),
    took=st.floats(0, 1e4),
    generation=st.none() | st.integers(0, 2**40),
    family_generation=st.none() | st.integers(0, 2**40),
)
def test_a_plain_success_is_encoded_like_an_event(tool, began, took, generation, family_generation):
    ended = began + took
    (value,) = encoded([(tool, began, ended, generation, family_generation)])
    event = Event(tool, "success", (ended - began) * 1000, generation, family_generation=family_generation)
    event = encode_event(event, OFFSET + ended, **WHO)
    found, wanted = (ToolExecution.model_validate_json(each) for each in (value, event))
    assert abs((found.recorded_at - wanted.recorded_at).total_seconds()) <= 2e-6
    assert found.metric_id.version == 7
    assert abs(found.execution_time_ms - wanted.execution_time_ms) < 0.000_6
    own = {"metric_id", "recorded_at", "execution_time_ms"}
    assert found.model_dump(exclude=own) == wanted.model_dump(exclude=own)
    assert decode_execution(value).tool_name == tool


def test_a_plain_success_leaves_out_what_an_event_leaves_out():
    (bulk,) = encoded([("t", 0.0, 0.5, None, None)], who={"emitter_id": "me", "service": ""})
    event = encode_event(Event("t", "success", 500.0), OFFSET, emitter_id="me", service="")
    assert json.loads(bulk).keys() == json.loads(event).keys()


def test_calls_of_each_tool_keep_their_order():
    items = [
        ("a", 0.0, 1.0, 1, None),
        ("b", 0.0, 2.0, 1, None),
        (Event("a", "error"), 3.0 + OFFSET),
        ("a", 0.0, 4.0, 2, None),
        ({"tool_name": "c", "status": "timeout"}, 5.0 + OFFSET),
        ("b", 0.0, 6.0, 1, None),
        ("a", 0.0, 7.0, 1, None),
    ]
    found = singles(encode_items(items, clock_offset=OFFSET, failed=pytest.fail, **WHO))
    executions = [ToolExecution.model_validate_json(each.values[0]) for each in found]
    assert [each.tool for each in found] == [each.tool_name for each in executions]
    of = {tool: [each for each in executions if each.tool_name == tool] for tool in "abc"}
    assert [each.status for each in of["a"]] == ["success", "error", "success", "success"]
    assert [each.generation for each in of["a"]] == [1, None, 2, 1]
    assert [each.status for each in (*of["b"], *of["c"])] == ["success", "success", "timeout"]
    for each in of.values():
        times = [execution.recorded_at for execution in each]
        assert times == sorted(times)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.floats(0, 3),
            st.floats(0, 2e3),
            st.sampled_from([None, 0, 7]),
            st.sampled_from([None, 3]),
        )
    )
)
def test_encodes_calls_of_several_tools_generations_and_seconds(calls):
    items = [(tool, ended - took, ended, *generations) for tool, ended, took, *generations in calls]
    runs = encode_successes(items, clock_offset=OFFSET, **WHO)
    assert len({run.tool for run in runs}) == len(runs)
    for run in runs:
        wanted = [each for each in items if each[0] == run.tool]
        for value, (tool, began, ended, generation, of_family) in zip(run.values, wanted, strict=True):
            found = ToolExecution.model_validate_json(value)
            assert (found.tool_name, found.generation, found.family_generation) == (tool, generation, of_family)
            assert found.recorded_at.timestamp() == pytest.approx(OFFSET + ended, abs=2e-6)
            assert found.execution_time_ms == pytest.approx((ended - began) * 1000, abs=0.000_6)
    assert sum(len(run.values) for run in runs) == len(items)


def test_plain_successes_of_one_tool_stay_together():
    runs = encode_items(
        [("a", 0.0, 1.0, 1, None), ("b", 0.0, 1.0, 1, None)] * 5, clock_offset=OFFSET, failed=pytest.fail, **WHO
    )
    assert [(batch.tool, len(batch.values)) for batch in runs] == [("a", 5), ("b", 5)]


def test_a_call_that_cannot_be_encoded_is_reported_and_the_others_are_encoded():
    broken = [({"tool_name": "t", "status": "no such status"}, OFFSET), (Event("t\ud800", "error"), OFFSET)]
    errors = []
    items = [("a", 0.0, 1.0, 1, None), *broken, ("b", 0.0, 1.0, 1, None)]
    found = singles(encode_items(items, clock_offset=OFFSET, failed=errors.append, **WHO))
    assert [each.tool for each in found] == ["a", "b"]
    assert len(errors) == 2
    assert errors[0].field == "status"


def test_encoding_no_items_returns_no_batches():
    assert encode_items([], clock_offset=OFFSET, failed=pytest.fail, **WHO) == []


@table("ended", [0.0, 0.999999, 1.0, 59.9999994, 60.0, 86_399.999999])
def test_an_instant_is_exact_to_the_microsecond_at_the_turn_of_seconds(ended):
    values = encoded([("t", 0.0, ended, 1, None), ("t", 0.0, ended + 0.001, 1, None)])
    for shift, value in zip((0.0, 0.001), values, strict=True):
        at = ToolExecution.model_validate_json(value).recorded_at.timestamp()
        assert at == pytest.approx(OFFSET + ended + shift, abs=2e-6)


@pytest.mark.slow
def test_a_thousand_calls_have_a_thousand_ids_in_order():
    now = time.monotonic()
    values = encoded([("t", now, now, 1, None)] * 10_000)
    ids = [json.loads(value)["metric_id"] for value in values]
    assert len(set(ids)) == 10_000
    assert ids == sorted(ids)
