"""At the end of the interpreter every emitter is closed, and all share one time limit."""

from __future__ import annotations

import math
import signal
import time
import weakref
from types import SimpleNamespace

import pytest

from switchgear import Emitter, Event
from switchgear.emitter import shutdown as at_exit
from tests.support.clock import Clock

NO_BROKER = "127.0.0.1:1"


class Leaver:
    """Records when it was closed. With a ``clock``, that takes 3 s."""

    def __init__(self, *, fails: bool = False, clock: Clock | None = None, interrupted: bool = False) -> None:
        self.fails = fails
        self.interrupted = interrupted
        self.clock = clock
        self.waited_s: float | None = None

    def leave(self, waited_s: float) -> None:
        self.waited_s = waited_s
        if self.clock is not None:
            self.clock.now += 3.0
        if self.interrupted and waited_s < math.inf:
            raise KeyboardInterrupt
        if self.fails:
            raise RuntimeError("cannot join thread before it is started")


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_exit, "_open", weakref.WeakSet())


def test_an_emitter_that_fails_to_close_does_not_keep_others_open(caplog: pytest.LogCaptureFixture) -> None:
    leavers = [Leaver(fails=True) for _ in range(3)]
    for each in leavers:
        at_exit.leave_at_exit(each)
    at_exit._leave_all()
    assert all(each.waited_s is not None for each in leavers)
    assert caplog.text.count("an emitter could not be closed at the end") == 3
    assert "cannot join thread before it is started" in caplog.text


def test_all_emitters_share_the_time_at_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(at_exit, "time", SimpleNamespace(monotonic=clock))
    leavers = [Leaver(clock=clock) for _ in range(3)]
    for each in leavers:
        at_exit.leave_at_exit(each)
    at_exit._leave_all()
    assert sorted(each.waited_s or 0.0 for each in leavers) == [0.0, 3.0, 6.0]


def test_an_end_without_time_left_does_not_wait_for_a_background_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer whose broker hangs takes a second to close. Its thread is a daemon and ends with the process."""
    waits: list[float] = []
    emitter = Emitter(NO_BROKER, exit_timeout=0.0)
    really = emitter._background.close
    monkeypatch.setattr(emitter._background, "close", lambda timeout: waits.append(timeout) or really(10))
    emitter.emit(Event("t", "success"))
    at_exit._leave_all()
    assert waits == [0.0]
    assert not emitter.emit(Event("t", "success")), "it is closed"
    other = Emitter(NO_BROKER)
    monkeypatch.setattr(other._background, "close", lambda timeout: waits.append(timeout) or True)
    other.close(0)
    assert waits == [0.0, 5.0], "who closes it in the middle of the day waits"


def test_ctrl_c_ends_the_wait_of_all_emitters() -> None:
    leavers = [Leaver(interrupted=True) for _ in range(3)]
    for each in leavers:
        at_exit.leave_at_exit(each)
    at_exit._leave_all()
    assert [each.waited_s for each in leavers] == [math.inf] * 3


def test_two_failed_attempts_to_connect_end_the_wait_early(caplog: pytest.LogCaptureFixture) -> None:
    emitter = Emitter(NO_BROKER, exit_timeout=600.0)
    for _ in range(2):
        emitter.emit(Event("t", "success"))
    began = time.monotonic()
    at_exit._leave_all()
    assert time.monotonic() - began < 120
    lost = f"Switchgear closed with 2 events that Kafka did not acknowledge ({NO_BROKER}); they are probably lost"
    assert caplog.text.count(lost) == 1
    assert emitter.status().dropped == 2


def test_an_ordinary_process_keeps_its_handling_of_sigterm() -> None:
    emitter = Emitter(NO_BROKER)
    emitter.emit(Event("t", "success"))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    emitter.close(0)


def test_a_client_that_was_never_used_connects_nowhere_at_the_end() -> None:
    emitter = Emitter(NO_BROKER)
    at_exit._leave_all()
    assert emitter.status().last_error is None
    assert not emitter.emit(Event("t", "success")), "it is closed"
