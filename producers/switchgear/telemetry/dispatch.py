"""HookList: runs a client's hooks, in order, and lets nothing of theirs into the call.

For the client that wires it: keep ``gear._hooks = hook_list(...)``, a HookList or None. None is the fast path: test
``if hooks is not None``. The methods have the hooks' names and never raise. ``wants`` names the hooks that somebody
overrides, so that nothing is built for nobody.
"""

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
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks

log: Final = logging.getLogger("switchgear.hooks")

LOG_AGAIN_S: Final = 60.0
"""A hook that fails is logged with its trace once a minute, with the number of failures since."""
_NAMES: Final = ("on_transition", "on_rejected", "on_fallback", "on_cached", "on_outcome", "on_drop", "traceparent")


class HookList:
    """Hooks in the order they were given. Thread-safe as far as the hooks are.

    Args:
        hooks: Whose methods are run; only overridden ones are.
        clock: Monotonic seconds, for the log.

    Raises:
        SwitchgearError: one of them is no hook, or has a coroutine function, which nobody would await.
    """

    def __init__(self, hooks: Iterable[Hooks], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.hooks = _checked(hooks)
        self._clock = clock
        self._failing: dict[str, tuple[float, int]] = {}
        self.failures = 0
        """Exceptions of hooks so far."""
        self._transition, self._rejected, self._fallback, self._cached, self._outcome, self._drop, self._trace = (
            self._overriding(name) for name in _NAMES
        )
        self.wants: frozenset[str] = frozenset(name for name in _NAMES if self._overriding(name))

    def on_transition(self, change: CircuitChange) -> None:
        """Run every ``on_transition``."""
        self._run("on_transition", self._transition, change, background=change.source == "fleet")

    def on_rejected(self, rejection: Rejection) -> None:
        """Run every ``on_rejected``."""
        self._run("on_rejected", self._rejected, rejection)

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Run every ``on_fallback``."""
        self._run("on_fallback", self._fallback, rejection, tool)

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """Run every ``on_cached``."""
        self._run("on_cached", self._cached, tool, rejection)

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Run every ``on_outcome``."""
        self._run("on_outcome", self._outcome, outcome)

    def on_drop(self, count: int) -> None:
        """Run every ``on_drop``."""
        self._run("on_drop", self._drop, count, background=True)

    def traceparent(self) -> str | None:
        """The first trace context that a hook knows."""
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
        """``background``: in a thread of ours, which nothing in a hook may end; the caller's own may be ended."""
        for method in methods:
            try:
                found = method(*given)
                if inspect.iscoroutine(found):
                    found.close()
                    raise TypeError("it returned a coroutine, which nobody awaits")
            except _caught(background) as error:  # a hook must not end the call
                self._failed(name, method, error)

    def _failed(self, name: str, method: Callable[..., Any], error: BaseException) -> None:
        self.failures += 1
        now = self._clock()
        who = f"{name_of(unwrapped(method))} ({name})"  # never its repr: it may show a partial's arguments, or fail
        known = self._failing.get(who)
        if known is not None and now < known[0]:
            self._failing[who] = (known[0], known[1] + 1)
            return
        more = f"; {known[1]} more since the last report" if known is not None and known[1] else ""
        self._failing[who] = (now + LOG_AGAIN_S, 0)  # before the log, whose handler may make a call that has this hook
        log.error("the hook %s failed; the call goes on%s", who, more, exc_info=error)

    def _overriding(self, name: str) -> tuple[Callable[..., Any], ...]:
        return tuple(method for each in self.hooks if (method := _overridden(each, name)) is not None)


def _caught(background: bool) -> type[BaseException] | tuple[type[BaseException], ...]:
    """In a thread of ours any BaseException: libraries derive theirs from it (a timeout, a panic), and it would end the thread.

    A fleet in memory has its background in the test's thread, where Ctrl-C and ``pytest.fail`` are for the test.
    """
    if not background:
        return Exception
    return (Exception, SystemExit) if threading.current_thread() is threading.main_thread() else BaseException


def _overridden(hook: Hooks, name: str) -> Callable[..., Any] | None:
    method: Callable[..., Any] = getattr(hook, name)
    return None if getattr(method, "__func__", None) is getattr(Hooks, name) else method


def _checked(hooks: Iterable[Hooks]) -> tuple[Hooks, ...]:
    if isinstance(hooks, (Hooks, str)) or not isinstance(hooks, Iterable):
        arguments.impossible("hooks", "a list of hooks", hooks, "Such as hooks=[MyHooks()].")
    found = tuple(hooks)
    for position, hook in enumerate(found):
        place = f"hooks[{position}]"
        if isinstance(hook, type):
            arguments.impossible(place, "an instance", hook, f"Make one: {hook.__name__}().")
        if not isinstance(hook, Hooks):
            hint = "Derive from Hooks; functions go into FunctionHooks(on_transition=...)."
            arguments.impossible(place, "an instance of Hooks", hook, hint)
        for name in _NAMES:
            method = _overridden(hook, name)
            if method is not None:
                arguments.function(f"{name} of {place}", method)
    return found


def hook_list(hooks: Iterable[Hooks]) -> HookList | None:
    """The runner of ``hooks``; None where there are none, or none that does anything.

    Raises:
        SwitchgearError: as :class:`HookList`.
    """
    found = HookList(hooks)
    return found if found.wants else None
