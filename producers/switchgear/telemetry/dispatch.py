"""Run a client's hooks in order, and keep their exceptions out of the call."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from switchgear import arguments
from switchgear.guard.rejections import Rejection
from switchgear.guard.tool_function import name_of, unwrapped
from switchgear.runtime.throttled_log import Throttle
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks

log: Final = logging.getLogger("switchgear.hooks")

LOG_AGAIN_S: Final = 60.0
"""The time between two log entries about a hook that fails."""
_NAMES: Final = ("on_transition", "on_rejected", "on_fallback", "on_cached", "on_outcome", "on_drop", "traceparent")


class HookList:
    """Hooks in the order they were given. Its methods have the names of the hooks and don't raise.

    Args:
        hooks: Their overridden methods are called.
        clock: Returns monotonic seconds, for the log.

    Raises:
        SwitchgearError: One of them isn't a hook, or has a coroutine function as a method.

    Attributes:
        wants: The names of the methods that a hook overrides. The others need no arguments.
        failures: The number of exceptions of hooks.
    """

    def __init__(self, hooks: Iterable[Hooks], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.hooks = _checked(hooks)
        self._throttle = Throttle(LOG_AGAIN_S, clock=clock)
        self.failures = 0
        self._transition, self._rejected, self._fallback, self._cached, self._outcome, self._drop, self._trace = (
            self._overriding(name) for name in _NAMES
        )
        self.wants: frozenset[str] = frozenset(name for name in _NAMES if self._overriding(name))

    def on_transition(self, change: CircuitChange) -> None:
        """Call every ``on_transition``."""
        self._run("on_transition", self._transition, change, background=change.source == "fleet")

    def on_rejected(self, rejection: Rejection) -> None:
        """Call every ``on_rejected``."""
        self._run("on_rejected", self._rejected, rejection)

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Call every ``on_fallback``."""
        self._run("on_fallback", self._fallback, rejection, tool)

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """Call every ``on_cached``."""
        self._run("on_cached", self._cached, tool, rejection)

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Call every ``on_outcome``."""
        self._run("on_outcome", self._outcome, outcome)

    def on_drop(self, count: int) -> None:
        """Call every ``on_drop``."""
        self._run("on_drop", self._drop, count, background=True)

    def traceparent(self) -> str | None:
        """Return the trace context of the first hook that has one, or None."""
        for method in self._trace:
            try:
                found = method()
            except Exception as error:  # noqa: BLE001 - a hook must not end the call
                self._failed("traceparent", method, error)
            else:
                if found is not None:
                    return str(found)
        return None

    def _run(
        self, name: str, methods: tuple[Callable[..., Any], ...], *given: object, background: bool = False
    ) -> None:
        """Call ``methods``. With ``background`` this is the client's own thread, which no exception of a hook may end."""
        for method in methods:
            try:
                found = method(*given)
                if inspect.iscoroutine(found):
                    found.close()
                    raise TypeError("The hook returned a coroutine. Hooks aren't awaited.")
            except _caught(background) as error:  # a hook must not end the call
                self._failed(name, method, error)

    def _failed(self, name: str, method: Callable[..., Any], error: BaseException) -> None:
        self.failures += 1
        hook = f"{name_of(unwrapped(method))} ({name})"  # not its repr, which may show arguments of a partial, or fail
        left_out = self._throttle.admit(hook)
        if left_out is not None:
            more = f"; {left_out} more since the last report" if left_out else ""
            log.error("the hook %s failed; the call goes on%s", hook, more, exc_info=error)

    def _overriding(self, name: str) -> tuple[Callable[..., Any], ...]:
        return tuple(method for each in self.hooks if (method := _overridden(each, name)) is not None)


def _caught(background: bool) -> type[BaseException] | tuple[type[BaseException], ...]:
    """Return the exceptions to catch.

    In the client's own thread these are all, because some libraries derive timeouts or panics from BaseException. An
    in-memory fleet runs its background in the main thread of the test, where Ctrl-C and ``pytest.fail`` must pass.
    """
    if not background:
        return Exception
    return (Exception, SystemExit) if threading.current_thread() is threading.main_thread() else BaseException


def _overridden(hook: Hooks, name: str) -> Callable[..., Any] | None:
    method: Callable[..., Any] = getattr(hook, name)
    return None if getattr(method, "__func__", None) is getattr(Hooks, name) else method


def _checked(hooks: Iterable[Hooks]) -> tuple[Hooks, ...]:
    if isinstance(hooks, (Hooks, str)) or not isinstance(hooks, Iterable):
        arguments.impossible("hooks", "a list of hooks", hooks, "For example hooks=[MyHooks()].")
    found = tuple(hooks)
    for position, hook in enumerate(found):
        place = f"hooks[{position}]"
        if isinstance(hook, type):
            arguments.impossible(place, "an instance", hook, f"Make one: {hook.__name__}().")
        if not isinstance(hook, Hooks):
            hint = "Derive from Hooks, or pass functions to FunctionHooks(on_transition=...)."
            arguments.impossible(place, "an instance of Hooks", hook, hint)
        for name in _NAMES:
            method = _overridden(hook, name)
            if method is not None:
                arguments.function(f"{name} of {place}", method)
    return found


def hook_list(hooks: Iterable[Hooks]) -> HookList | None:
    """Return a HookList, or None if no hook overrides a method.

    Raises:
        SwitchgearError: See :class:`HookList`.
    """
    found = HookList(hooks)
    return found if found.wants else None
