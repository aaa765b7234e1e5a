"""AgentCircuitBreaker keeps what the pattern's text promises, and corrects its mistakes."""

from __future__ import annotations

import pickle
import threading
import time
from datetime import timedelta

import pytest

from switchgear.compat import AgentCircuitBreaker
from switchgear.guard.options import OptionError
from switchgear.guard.rejections import CircuitOpenError
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S
from tests.support.table import table

MINUTE = timedelta(minutes=1)


class DownError(Exception):
    pass


def down(*_args):
    raise DownError("the endpoint is down")


def fail(breaker, times=1):
    for _ in range(times):
        with pytest.raises(DownError):
            breaker.call(down)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return AgentCircuitBreaker(failure_threshold=3, cooldown_seconds=60, clock=clock)


# -- what the pattern promises ----------------------------------------------------------------------------------------


def test_opens_after_3_failures_for_60_seconds_by_default():
    breaker = AgentCircuitBreaker()
    assert breaker.threshold == 3
    assert breaker.cooldown == 60
    positional = AgentCircuitBreaker(2, 120)
    assert (positional.threshold, positional.cooldown) == (2, 120)


def test_starts_closed_without_failures(breaker):
    assert breaker.state == "closed"
    assert breaker.failure_count == 0
    assert breaker.opened_at is None


def test_call_passes_arguments_and_returns_the_result(breaker):
    assert breaker.call(lambda a, *, b: (a, b), 1, b=2) == (1, 2)
    assert breaker.call(tool_fn=lambda: 5) == 5


def test_opened_at_is_wall_clock_time_by_default():
    before = time.time()
    breaker = AgentCircuitBreaker(failure_threshold=1)
    fail(breaker)
    assert before <= breaker.opened_at <= time.time()


def test_counts_an_exception_and_raises_it(breaker):
    fail(breaker)
    assert breaker.failure_count == 1
    assert breaker.state == "closed"


def test_counts_every_exception_of_the_tool(breaker):
    for _ in range(3):
        with pytest.raises(ValueError, match="invalid literal"):
            breaker.call(int, "x")
    assert breaker.state == "open"


def test_opens_at_the_threshold_and_records_the_time(breaker, clock):
    fail(breaker, 2)
    assert breaker.state == "closed"
    clock.now = 1_005.0
    fail(breaker)
    assert breaker.state == "open"
    assert breaker.failure_count == 3
    assert breaker.opened_at == 1_005.0


@pytest.mark.parametrize(("cooldown", "shown"), [(60, "60s"), (30, "30s"), (1.5, "1.5s")])
def test_open_circuit_raises_the_error_with_the_patterns_message(clock, cooldown, shown):
    breaker = AgentCircuitBreaker(cooldown_seconds=cooldown, clock=clock)
    fail(breaker, 3)
    with pytest.raises(CircuitOpenError) as refused:
        breaker.call(down)
    assert refused.value.message == f"Circuit open — tool disabled for {shown}"
    assert str(refused.value).startswith(f"Circuit open — tool disabled for {shown}. The tool down is unavailable")


def test_open_circuit_makes_no_call(breaker, clock):
    fail(breaker, 3)
    made = []
    clock.now += 59.999
    with pytest.raises(CircuitOpenError):
        breaker.call(made.append, 1)
    assert made == []


def test_probes_in_state_half_open_after_the_cooldown(breaker, clock):
    fail(breaker, 3)
    clock.now += 60
    seen = []
    breaker.call(lambda: seen.append(breaker.state))
    assert seen == ["half_open"]


def test_state_stays_open_until_the_next_call(breaker, clock):
    fail(breaker, 3)
    clock.now += 1_000
    assert breaker.state == "open"


def test_successful_probe_closes_the_circuit_and_resets_the_count(breaker, clock):
    fail(breaker, 3)
    clock.now += 60
    assert breaker.call(lambda: "up") == "up"
    assert breaker.state == "closed"
    assert breaker.failure_count == 0


def test_failed_probe_opens_the_circuit_for_another_cooldown(breaker, clock):
    fail(breaker, 3)
    clock.now += 60
    fail(breaker)
    assert breaker.state == "open"
    assert breaker.failure_count == 4
    assert breaker.opened_at == 1_060.0
    clock.now += 59
    with pytest.raises(CircuitOpenError):
        breaker.call(down)
    clock.now += 1
    breaker.call(lambda: None)
    assert breaker.state == "closed"


def test_opens_after_a_recovery_only_at_the_whole_threshold(breaker, clock):
    fail(breaker, 3)
    clock.now += 60
    breaker.call(lambda: None)
    fail(breaker, 2)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


# -- corrections of the pattern -------------------------------------------------------------------------------


def test_a_success_ends_a_run_of_failures(breaker):
    for _ in range(5):
        fail(breaker, 2)
        breaker.call(lambda: None)
        assert breaker.failure_count == 0
    assert breaker.state == "closed"


def test_a_late_failure_does_not_lengthen_the_cooldown(breaker, clock):
    started, release = threading.Event(), threading.Event()

    def slow():
        started.set()
        release.wait(ANSWER_S)
        raise DownError

    def call_slow():
        with pytest.raises(DownError):
            breaker.call(slow)

    late = threading.Thread(target=call_slow)
    late.start()
    started.wait(ANSWER_S)
    fail(breaker, 3)
    clock.now += 30
    release.set()
    late.join(ANSWER_S)
    assert breaker.opened_at == 1_000.0
    clock.now = 1_060.0
    breaker.call(lambda: None)
    assert breaker.state == "closed"


def test_interrupted_probe_lets_the_next_call_probe(breaker, clock):
    fail(breaker, 3)
    clock.now += 60

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaker.call(interrupted)
    assert breaker.failure_count == 3
    assert breaker.call(lambda: "next") == "next"
    assert breaker.state == "closed"


def test_probe_that_never_returns_counts_as_lost_after_its_limit(clock):
    breaker = AgentCircuitBreaker(1, 60, clock=clock)
    fail(breaker)
    clock.now += 60
    started, release = threading.Event(), threading.Event()

    def hung():
        started.set()
        release.wait(ANSWER_S)

    stuck = threading.Thread(target=lambda: breaker.call(hung))
    stuck.start()
    started.wait(ANSWER_S)
    clock.now += 599
    with pytest.raises(CircuitOpenError):
        breaker.call(down)
    clock.now += 1  # it counts as lost: the cooldown starts again
    with pytest.raises(CircuitOpenError):
        breaker.call(down)
    assert breaker.opened_at == 1_660.0
    release.set()
    stuck.join(ANSWER_S)
    assert breaker.state == "open"  # its late success is not believed
    clock.now += 60
    breaker.call(lambda: None)
    assert breaker.state == "closed"


# -- around it --------------------------------------------------------------------------------------------------------


def test_refusal_has_tool_state_wait_and_redacted_error(breaker, clock):
    def lookup():
        raise DownError("password=hunter2hunter2 is wrong")

    for _ in range(3):
        with pytest.raises(DownError):
            breaker.call(lookup)
    clock.now += 20
    with pytest.raises(CircuitOpenError) as refused:
        breaker.call(lookup)
    error = refused.value
    assert (error.tool, error.state, error.retry_after_s) == ("lookup", "open", 40.0)
    assert error.last_error == "DownError: password=[redacted] is wrong"
    assert "Do not call it again within the next 40 s." in error.text
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.tool) == (str(error), "lookup")


def test_reset_closes_the_circuit_and_forgets_failures(breaker):
    fail(breaker, 3)
    breaker.reset()
    assert (breaker.state, breaker.failure_count) == ("closed", 0)
    assert breaker.call(lambda: 1) == 1


def test_probes_immediately_without_cooldown(clock):
    breaker = AgentCircuitBreaker(1, 0, clock=clock)
    fail(breaker)
    clock.now += 0.001
    assert breaker.call(lambda: 1) == 1


@table(
    ("arguments", "named"),
    [
        *(({"failure_threshold": wrong}, "failure_threshold") for wrong in (0, -1, 2.5, True, "3", None)),
        *(
            ({"cooldown_seconds": wrong}, "cooldown_seconds")
            for wrong in (-1, float("nan"), 10**400, "60", None, MINUTE)
        ),
        ({"clock": 3}, "clock"),
    ],
)
def test_names_an_argument_that_is_out_of_range(arguments, named):
    with pytest.raises(OptionError, match=named):
        AgentCircuitBreaker(**arguments)


def test_repr_shows_state_and_failures(breaker):
    fail(breaker)
    assert repr(breaker) == "<AgentCircuitBreaker closed, 1 of 3 failures>"
