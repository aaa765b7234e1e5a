"""Calling: guard, call and answer under a set of options; what a client and its ``with_options`` have in common."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, Unpack, overload

from switchgear.answer import Answer
from switchgear.guard.decorate import guarded, replanned
from switchgear.guard.options import GuardOptions, Overrides
from switchgear.guard.plan import Plan
from switchgear.guard.rich import aanswer_through, acall_through, answer_through, call_through
from switchgear.guard.stand_ins import guarded_by
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.client import Switchgear
    from switchgear.guard.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

MOST_PLANS: Final = 1_000
_NOT_FOR_CALL: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_NOT_FOR_ACALL: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Calling:
    """A client's calls under ``options``: the client's own, or what ``gear.with_options(...)`` returns, which is cheap to make."""

    def __init__(
        self, gear: Switchgear, runtime: Runtime, options: GuardOptions, asked: frozenset[str] = frozenset()
    ) -> None:
        self._gear = gear
        self._runtime = runtime
        self.options = options
        self._asked = asked
        self._plans: dict[str, Plan] = {}

    def with_options(self, **options: Unpack[Overrides]) -> Calling:
        """The same calls with other options: ``gear.with_options(timeout=5).call("tool", function, …)``.

        Raises:
            OptionError: an option is unknown or out of range.
        """
        return Calling(self._gear, self._runtime, self.options.override(options), self._asked | options.keys())

    def guard(self, tool: str, **options: Unpack[Overrides]) -> Callable[[F], F]:
        """Decorate what calls ``tool``: a function, coroutine function, generator or async generator, also in a class body.

        It keeps its name, docs, signature and type.

        Args:
            tool: the circuit's name. The function is remembered under it, so that other tools may fall back on it.
            options: see :class:`~switchgear.GuardOptions`; those left out are these defaults.

        Raises:
            OptionError: an option is unknown, out of range, or impossible for this kind of function.
        """
        given, asked = self.options.override(options), self._asked | options.keys()

        def decorate(function: F) -> F:
            found: F = guarded(self._gear, self._runtime, tool, function, given, asked=asked)
            return found

        return decorate

    def call(self, tool: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: the circuit refused; whatever the function raises goes through.
            SwitchgearError: it is a coroutine function or a generator, whose outcome would not be known here.
        """
        _refuse(function, _NOT_FOR_CALL)
        result: R = call_through(self._plan(tool), function, args, kwargs)
        return result

    async def acall(self, tool: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: the circuit refused; whatever the function raises goes through.
        """
        _refuse(function, _NOT_FOR_ACALL)
        result: R = await acall_through(self._plan(tool), function, args, kwargs)
        return result

    @overload
    def answer(self, tool: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    @overload
    def answer(self, guarded: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    def answer(self, first: Any, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """The result with what served it: ``gear.answer(guarded, …)``, or ``gear.answer("tool", function, …)``.

        Raises:
            CircuitOpenError: the circuit refused and nothing else serves; whatever the function raises goes through.
            SwitchgearError: the function is not guarded, or is a coroutine function or a generator.
        """
        plan, function, args = self._of(first, args)
        _refuse(function, _NOT_FOR_CALL)
        return answer_through(plan, function, args, kwargs)

    @overload
    async def aanswer(
        self, tool: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Answer[R]: ...
    @overload
    async def aanswer(self, guarded: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    async def aanswer(self, first: Any, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """:meth:`answer` for coroutine functions."""
        plan, function, args = self._of(first, args)
        _refuse(function, _NOT_FOR_ACALL)
        return await aanswer_through(plan, function, args, kwargs)

    def _plan(self, tool: str) -> Plan:
        plan = self._plans.get(tool)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[tool] = Plan(self._runtime, tool, self.options)
        return plan

    def _of(self, first: Any, args: tuple[Any, ...]) -> tuple[Plan, Callable[..., Any], tuple[Any, ...]]:
        """The plan, the bare function and the arguments of an ``answer``, by tool and function or by a guarded function."""
        if isinstance(first, str):
            if not args or not callable(args[0]):
                raise SwitchgearError(f"answer({first!r}, …) needs the function that calls {first}.")
            return self._plan(first), args[0], args[1:]
        found = guarded_by(first)
        if found is None:
            raise SwitchgearError(
                f"{first!r} is not guarded.", hint="Give a guarded function, or the tool's name and a function."
            )
        bound = getattr(first, "__self__", None) if inspect.ismethod(first) else None
        plan = replanned(found.plan, self.options, self._asked) if self._asked else found.plan
        return plan, found.tool.call, args if bound is None else (bound, *args)


def _refuse(function: Any, kinds: int) -> None:
    """A coroutine function or generator called here would run unguarded, after its outcome was told.

    Raises:
        SwitchgearError: saying what to use instead.
    """
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & kinds:
        asynchronous = code.co_flags & inspect.CO_COROUTINE
        raise SwitchgearError(
            f"{function.__qualname__} is {'a coroutine function' if asynchronous else 'a generator function'}.",
            hint="Use acall or aanswer." if asynchronous else "Decorate it with guard.",
        )
