"""Start, flush and close in the client's own background thread don't wait for that thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest

from switchgear import CircuitChange, FunctionHooks, Switchgear
from switchgear.telemetry.hooks import HookList
from tests.support.limits import ANSWER_S
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"


def dropping(hook: Callable[[Switchgear], object]) -> tuple[Switchgear, list[object], list[float]]:
    """Return a client that has lost events, what ``hook`` returned when it was called, and how long that took."""
    found: list[object] = []
    took: list[float] = []
    called = threading.Event()

    def on_drop(_count: int) -> None:
        assert called.wait(ANSWER_S)  # between a drop and the event that takes its place, the buffer is empty
        started = time.monotonic()
        try:
            found.append(hook(gear))
        except BaseException as error:
            found.append(error)
            raise
        finally:
            took.append(time.monotonic() - started)

    gear = Switchgear(NO_BROKER, buffer_size=1, hooks=[FunctionHooks(on_drop=on_drop)])
    for _ in range(5):
        gear.call("t", int)
    called.set()
    until(lambda: bool(took))
    return gear, found, took


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook", [lambda gear: gear.flush(30), lambda gear: gear.start(30), lambda gear: gear.close(0.1)]
)
def test_flush_and_start_in_a_hook_of_the_background_do_not_wait(hook: Callable[[Switchgear], object]) -> None:
    gear, found, took = dropping(hook)
    assert found == [False]
    assert took[0] < 10, "the hook asked for thirty"
    assert gear.status().hook_failures == 0
    gear.close(0)


def test_a_hook_can_close_its_client() -> None:
    gear, found, _ = dropping(lambda gear: gear.close(0))
    assert found == [False]
    background = gear._background
    assert background is not None
    until(lambda: background.closed and not background.alive)
    assert background.closed
    assert not background.alive


@pytest.mark.slow
def test_an_exit_in_a_hook_ends_the_background_once() -> None:
    gear, found, _ = dropping(lambda _gear: sys.exit(3))
    assert isinstance(found[0], SystemExit)
    until(lambda: gear.status().hook_failures == 1)
    assert gear.status().hook_failures == 1
    assert gear._background is not None
    assert gear._background.alive
    assert gear._background.deaths == {}
    gear.close(0)


def test_an_exit_in_a_hook_in_the_callers_thread_reaches_the_caller() -> None:
    def leave(_change: CircuitChange) -> None:
        sys.exit(3)

    hooks = HookList([FunctionHooks(on_transition=leave)])
    with pytest.raises(SystemExit):
        hooks.on_transition(CircuitChange("t", "t", "local", "closed", "open", 1))
    hooks.on_transition(CircuitChange("t", "t", "fleet", "closed", "open", 1))
    assert hooks.failures == 1


def test_start_of_a_closed_client_returns_false() -> None:
    gear = Switchgear(NO_BROKER)
    gear.close(0)
    assert gear.start(5) is False
