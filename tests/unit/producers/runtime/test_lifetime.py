"""A hook that ends the process, and the start of a closed client."""

from __future__ import annotations

import sys

import pytest

from switchgear import CircuitChange, FunctionHooks, Switchgear
from switchgear.telemetry.hooks import HookList
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"


def test_an_exit_in_a_hook_ends_the_background_once() -> None:
    found: list[int] = []

    def on_drop(count: int) -> None:
        found.append(count)
        sys.exit(3)

    gear = Switchgear(NO_BROKER, buffer_size=1, hooks=[FunctionHooks(on_drop=on_drop)])
    for _ in range(5):
        gear.call("t", int)
    until(lambda: bool(found))
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
