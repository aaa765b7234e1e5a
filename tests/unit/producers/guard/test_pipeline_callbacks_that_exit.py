"""Ctrl-C, an exit or a cancellation in a user's function after the call gives the permit back."""

from __future__ import annotations

import asyncio
import time

import pytest

from switchgear import BreakerPolicy, Hooks, Switchgear
from switchgear.telemetry.hooks import FunctionHooks

PROBING = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.01)
AFTER_A_RESULT = ("usage", "classify_result")
AFTER_THE_CALL = (*AFTER_A_RESULT, "classify")
EXITS = (KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit)


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def gear(outcomes):
    return Switchgear.local(local_policies=PROBING, hooks=[FunctionHooks(on_outcome=outcomes.append)])


def half_open(gear, tool="t"):
    gear.try_acquire(tool).failure(ConnectionError())
    time.sleep(0.02)


def that_exits(kind):
    def stop(*_given):
        raise kind

    return stop


def ending_for(callback):
    """The tool's part: it answers, or fails where the rule for failures is to be asked."""
    if callback == "classify":
        raise ValueError
    return {"a": 1}


def made_once_and_is_the_probe_free(gear, outcomes):
    classes = [one.error_class for one in outcomes if one.error_type != "ConnectionError"]
    assert classes == ["cancelled"], "reported once"
    return bool(gear.try_acquire("t"))


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("callback", AFTER_THE_CALL)
def test_a_callback_that_exits_returns_the_permit_of_a_function(gear, outcomes, callback, kind):
    guarded = gear.guard("t", **{callback: that_exits(kind)})(lambda: ending_for(callback))
    half_open(gear)
    with pytest.raises(kind):
        guarded()
    assert made_once_and_is_the_probe_free(gear, outcomes)


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("callback", AFTER_THE_CALL)
def test_a_callback_that_exits_returns_the_permit_of_a_coroutine(gear, outcomes, callback, kind):
    @gear.guard("t", **{callback: that_exits(kind)})
    async def guarded():
        return ending_for(callback)

    half_open(gear)
    with pytest.raises(kind):
        guarded().send(None)  # no loop, which would have its own way with such an exception
    assert made_once_and_is_the_probe_free(gear, outcomes)


@pytest.mark.parametrize("callback", AFTER_THE_CALL)
def test_a_callback_that_exits_returns_the_permit_of_a_deferred_result(gear, outcomes, callback):
    async def tool():
        return ending_for(callback)

    guarded = gear.guard("t", **{callback: that_exits(KeyboardInterrupt)})(lambda: tool())  # noqa: PLW0108 - no coroutine function
    half_open(gear)
    with pytest.raises(KeyboardInterrupt):
        guarded().send(None)
    assert made_once_and_is_the_probe_free(gear, outcomes)


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("callback", ["usage", "classify"])
def test_a_callback_that_exits_returns_the_permit_of_a_stream(gear, outcomes, callback, kind):
    @gear.guard("t", **{callback: that_exits(kind)})
    def stream():
        yield ending_for(callback)

    half_open(gear)
    with pytest.raises(kind):
        next(stream())
    assert made_once_and_is_the_probe_free(gear, outcomes)


def test_a_clients_rule_that_exits_keeps_no_permit_of_a_guard_with_options():
    broken = []

    def rule(error):
        if broken:
            raise KeyboardInterrupt
        return "server"

    gear = Switchgear.local(local_policies=PROBING, classify=rule)

    @gear.guard("t", classify=lambda _error: None)
    def guarded():
        raise ValueError

    half_open(gear)
    broken.append(True)
    with pytest.raises(KeyboardInterrupt):
        guarded()
    assert gear.try_acquire("t")


@pytest.mark.parametrize("method", ["on_rejected", "on_fallback"])
def test_a_hook_that_exits_gives_the_fallback_tools_permit_back(method):
    hooks = Hooks()
    setattr(hooks, method, that_exits(SystemExit))
    shut = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)
    gear = Switchgear.local(local_policies={"backup": PROBING, "primary": shut}, hooks=[hooks])
    made = []
    gear.guard("backup")(lambda: made.append(1))
    primary = gear.guard("primary", fallback="backup")(lambda: None)
    half_open(gear, "backup")
    gear.try_acquire("primary").failure(ConnectionError())
    with pytest.raises(SystemExit):
        primary()
    assert made == []
    assert gear.try_acquire("backup")


class InterruptedReadingError(Exception):
    def __str__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["classify", "redact", "__str__"])
@pytest.mark.parametrize("way", ["permit", "report", "plain"])
def test_a_rule_that_exits_while_a_failure_is_classified_keeps_no_permit(where, way):
    exits = []

    def rule(given):
        if exits:
            raise KeyboardInterrupt
        return given if isinstance(given, str) else "server"

    gear = Switchgear.local(local_policies=PROBING, **({} if where == "__str__" else {where: rule}))
    half_open(gear)
    exits.append(True)
    error = InterruptedReadingError() if where == "__str__" else ValueError()

    @gear.guard("t")
    def tool():
        raise error

    def through_a_permit():
        with gear.permit("t"):
            raise error

    ways = {"permit": through_a_permit, "report": lambda: gear.try_acquire("t").failure(error), "plain": tool}
    with pytest.raises(KeyboardInterrupt):
        ways[way]()
    assert gear.try_acquire("t")
