"""Hooks run in order and never break the call."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

import pytest

from switchgear import CircuitOpenError, Switchgear
from switchgear.guard.rejections import Rejection
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, FunctionHooks, HookList, Hooks
from switchgear_schemas.policy import BreakerPolicy
from tests.support.clock import Clock
from tests.support.limits import HAPPEN_S
from tests.support.local_client import local_client
from tests.support.table import table

REJECTION = Rejection("t", "open", "local")
CHANGE = CircuitChange("t", "t", "local", "closed", "open", 1)
QUICK = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=0.02)


class Notes(Hooks):
    """Records its calls and their threads."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.threads: set[str] = set()

    def _note(self, what: object) -> None:
        self.calls.append(what)
        self.threads.add(threading.current_thread().name)

    def on_transition(self, change: CircuitChange) -> None:
        self._note((change.source, change.previous, change.state))

    def on_rejected(self, rejection: Rejection) -> None:
        self._note(("rejected", rejection.tool, rejection.state))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        self._note(("fallback", rejection.tool, tool))

    def on_outcome(self, outcome: CallOutcome) -> None:
        self._note((outcome.status, outcome.error_class, outcome.error_type, outcome.probe))


class Failing(Hooks):
    def on_rejected(self, rejection: Rejection) -> None:
        raise ValueError(rejection.tool)

    def traceparent(self) -> str | None:
        raise ValueError("no trace")


def broken() -> None:
    raise ConnectionError("down")


def failing_calls(gear: Switchgear, tool: str, count: int) -> None:
    for _ in range(count):
        with pytest.raises(ConnectionError):
            gear.call(tool, broken)


def test_hooks_run_in_the_order_they_were_given() -> None:
    calls: list[str] = []
    first = FunctionHooks(on_rejected=lambda _: calls.append("first"))
    second = FunctionHooks(on_rejected=lambda _: calls.append("second"))
    HookList([first, second]).on_rejected(REJECTION)
    assert calls == ["first", "second"]


def test_wants_only_overridden_methods() -> None:
    assert HookList([Notes()]).wants == {"on_transition", "on_rejected", "on_fallback", "on_outcome"}
    assert HookList([FunctionHooks(on_drop=print)]).wants == {"on_drop"}


def test_wants_nothing_without_overridden_methods() -> None:
    assert not HookList([]).wants
    assert not HookList([Hooks(), FunctionHooks()]).wants


def test_failing_hook_is_logged_once_a_minute_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    notes = Notes()
    hooks = HookList([Failing(), notes], clock=lambda: now)
    with caplog.at_level(logging.ERROR, "switchgear.hooks"):
        for _ in range(5):
            hooks.on_rejected(REJECTION)
        assert len(caplog.records) == 1
        now = 61.0
        hooks.on_rejected(REJECTION)
    assert len(caplog.records) == 2
    assert "Failing.on_rejected" in caplog.text
    assert "4 more since the last report" in caplog.text
    assert "ValueError: t" in caplog.text, "with its trace"
    assert len(notes.calls) == hooks.failures == 6


@table(
    "run",
    [
        lambda hooks: hooks.on_transition(CHANGE),
        lambda hooks: hooks.on_rejected(REJECTION),
        lambda hooks: hooks.on_fallback(REJECTION, "other"),
        lambda hooks: hooks.on_outcome(CallOutcome("t", "success", 1.0)),
        lambda hooks: hooks.on_drop(3),
    ],
    ids=["transition", "rejected", "fallback", "outcome", "drop"],
)
def test_exception_of_a_hook_does_not_reach_the_call(run: Callable[[HookList], None]) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    hooks = HookList(
        [FunctionHooks(on_transition=fail, on_rejected=fail, on_fallback=fail, on_outcome=fail, on_drop=fail)]
    )
    run(hooks)
    assert hooks.failures == 1


def test_log_names_a_failing_hook_without_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_key: str, _: object) -> None:
        raise ValueError

    HookList([FunctionHooks(on_rejected=functools.partial(fail, "s3cr3t"))]).on_rejected(REJECTION)
    (record,) = caplog.records
    assert "fail (on_rejected)" in record.getMessage()
    assert "s3cr3t" not in record.getMessage()


def test_log_handler_may_call_a_tool_with_the_failing_hook() -> None:
    def fail(_: object) -> None:
        raise ValueError

    gear = Switchgear.local(hooks=[FunctionHooks(on_outcome=fail)])

    class Pager(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            gear.call("pager", int)

    logger, pager = logging.getLogger("switchgear.hooks"), Pager()
    logger.addHandler(pager)
    try:
        assert gear.call("search", lambda: "3 pages") == "3 pages"
    finally:
        logger.removeHandler(pager)
    assert gear.status().hook_failures == 2


def test_uses_the_first_trace_context_and_skips_a_failing_hook() -> None:
    class Traced(Hooks):
        def traceparent(self) -> str | None:
            return "00-aa-bb-01"

    assert HookList([Failing(), Hooks(), Traced()]).traceparent() == "00-aa-bb-01"
    assert HookList([Hooks()]).traceparent() is None


def test_hooks_run_in_order_in_the_callers_thread() -> None:
    notes, clock = Notes(), Clock()
    policy = QUICK.model_copy(update={"wait_duration_in_open_state_s": 60})
    gear = local_client(clock, local_policies=policy, hooks=[notes])
    assert gear.call("t", lambda: 1) == 1
    failing_calls(gear, "t", 2)
    with pytest.raises(CircuitOpenError):
        gear.call("t", broken)
    clock.now += 60
    assert gear.call("t", lambda: 2) == 2
    assert notes.calls == [
        ("success", None, None, False),
        ("error", "transport", "ConnectionError", False),
        ("error", "transport", "ConnectionError", False),
        ("local", "closed", "open"),
        ("rejected", "t", "open"),
        ("local", "open", "half_open"),
        ("success", None, None, True),
        ("local", "half_open", "closed"),
    ]
    assert notes.threads == {threading.current_thread().name}


def test_change_has_its_reason_and_wait() -> None:
    changes: list[CircuitChange] = []
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30, jitter=0),
        hooks=[FunctionHooks(on_transition=changes.append)],
    )
    failing_calls(gear, "t", 2)
    (change,) = changes
    assert (change.circuit_id, change.tool, change.source, change.generation) == ("t", "t", "local", 1)
    assert change.reason == "consecutive_failures"
    assert change.retry_after_s == pytest.approx(30)


def test_hook_may_use_its_client() -> None:
    """Hooks run without a lock, so a hook may ask about the circuit that changed."""
    seen: list[bool] = []
    gear: Switchgear

    def ask(change: CircuitChange) -> None:
        seen.append(gear.is_open(change.tool))

    policy = QUICK.model_copy(update={"wait_duration_in_open_state_s": 60})
    gear = Switchgear.local(local_policies=policy, hooks=[FunctionHooks(on_transition=ask)])
    failing_calls(gear, "t", 2)
    assert seen == [True]


async def test_coroutine_functions_call_hooks() -> None:
    notes = Notes()
    gear = Switchgear.local(local_policies=QUICK, hooks=[notes])

    @gear.guard("t")
    async def work(fail: bool) -> None:
        if fail:
            broken()

    await work(fail=False)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await work(fail=True)
    assert [call[0] for call in notes.calls if isinstance(call, tuple)] == ["success", "error", "error", "local"]


@pytest.mark.slow
def test_threads_report_every_change_once() -> None:
    changes: list[CircuitChange] = []
    gear = Switchgear.local(local_policies=QUICK, hooks=[FunctionHooks(on_transition=changes.append)])

    def hammer() -> None:
        for number in range(300):
            try:
                gear.call("t", broken if number % 3 else int)
            except (ConnectionError, CircuitOpenError):
                threading.Event().wait(0.0002)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert sorted(change.generation for change in changes) == list(range(1, len(changes) + 1))
    assert len(changes) > 2
