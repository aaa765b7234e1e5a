from random import Random

import httpx
import pytest

from switchgear.classify import classify
from tests.bench.benefit.faults import FAULTS, Fault


def _fault(name: str, calls_a_minute: float = 10.0) -> Fault:
    fault = FAULTS[name](calls_a_minute)
    assert fault is not None
    return fault


@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("explicit, transient", "server"),
        ("explicit, permanent", "transport"),
        ("hung", "timeout"),
        ("expired token", "auth"),
        ("changed schema", "invalid_input"),
    ],
)
def test_an_explicit_fault_raises_what_a_client_of_such_a_tool_raises(name, error_class):
    hit = _fault(name).hit
    assert hit.error is not None
    assert classify(hit.error()).error_class == error_class


@pytest.mark.parametrize("name", ["implicit, transient", "implicit, permanent"])
def test_an_implicit_fault_answers_wrongly_without_an_error(name):
    hit = _fault(name).hit
    assert hit.wrong
    assert hit.error is None


def test_a_transient_fault_hits_half_of_the_calls():
    fault, rng = _fault("explicit, transient"), Random(1)
    hits = sum(fault.of(300.0, "task", rng) is not None for _ in range(2_000))
    assert hits == pytest.approx(1_000, abs=80)
    assert fault.would_answer(300.0) == 0.5


def test_a_quota_takes_half_of_the_usual_calls_of_a_minute_and_names_the_wait():
    fault, rng = _fault("quota"), Random(1)
    hits = [fault.of(310.0, "task", rng) for _ in range(7)]
    assert [hit is None for hit in hits] == [True] * 5 + [False] * 2
    assert hits[-1] is not None
    assert hits[-1].error is not None
    error = hits[-1].error()
    assert isinstance(error, httpx.HTTPStatusError)
    assert error.response.status_code == 429
    assert classify(error).retry_after_s == 50.0
    assert fault.would_answer(310.0) == 0.0
    assert fault.would_answer(361.0) == 1.0


def test_a_changed_schema_rejects_the_first_call_of_each_task_alone():
    fault, rng = _fault("changed schema"), Random(1)
    assert [fault.of(300.0, task, rng) is None for task in ("a", "a", "b", "b")] == [False, True, False, True]
    assert fault.would_answer(300.0) == 1.0
