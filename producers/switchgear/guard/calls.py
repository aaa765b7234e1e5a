"""Guard, call and answer under a set of options."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, Unpack, overload

from switchgear import arguments
from switchgear.classify import Classification
from switchgear.guard.call import Answer, GuardPlan
from switchgear.guard.decorate import guarded
from switchgear.guard.options import GuardOptions, Overrides
from switchgear.guard.pipeline import arun, run
from switchgear.guard.tool_function import Guarded, examine, guarded_by
from switchgear.usage import Usage
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.runtime import Runtime


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

MOST_PLANS: Final = 1_000
_GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
"""Flags of the code of a function that ``acall`` can't call."""
_NO_FUNCTION: Final = _GENERATORS | inspect.CO_COROUTINE
"""The same for ``call``."""


class Calling:
    """A client's calls under a set of options: the client itself, or what ``gear.with_options(...)`` returns."""

    def __init__(self, runtime: Runtime, defaults: GuardOptions, overrides: Overrides | None = None) -> None:
        self._runtime = runtime
        self._overrides: Overrides = overrides or {}
        self.options = defaults.override(self._overrides)
        self._plans: dict[str, GuardPlan] = {}

    def with_options(self, **options: Unpack[Overrides]) -> Calling:
        """Return the same calls with other options: ``gear.with_options(timeout=5).call("tool", function, …)``.

        Raises:
            OptionError: An option is unknown or out of range.
        """
        return Calling(self._runtime, self.options, {**self._overrides, **options})

    def guard(self, tool: str, **options: Unpack[Overrides]) -> Callable[[F], F]:
        """Decorate a function that calls ``tool``: a function, coroutine function, generator or async generator, or a method.

        It keeps its name, docs, signature and type.

        Args:
            tool: The circuit's name. Other tools can fall back on the function by this name.
            options: See :class:`~switchgear.GuardOptions`. The client's defaults hold for those that you leave out.

        Raises:
            OptionError: An option is unknown, out of range, or impossible for this kind of function; or ``tool`` can't be the
                name of a tool.
        """
        arguments.tool_name(tool)
        given, asked = self.options.override(options), {*self._overrides, *options}

        def decorate(function: F) -> F:
            found: F = guarded(self._runtime, tool, function, given, asked=asked)
            return found

        return decorate

    def guard_all(self, tools: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Guard functions by tool name. One that falls back on another of them calls that very function.

        Raises:
            OptionError: ``tools`` isn't a dict of functions by name, or one of them can't be guarded.
        """
        if not isinstance(tools, Mapping):
            arguments.impossible(
                "tools", "a dict of functions by their tools' names", tools, 'tools={"search": search}'
            )
        group: dict[str, Guarded] = {}
        return {
            name: guarded(self._runtime, name, function, self.options, asked=self._overrides, group=group)
            for name, function in tools.items()
        }

    def call(self, tool: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: The circuit refused. What the function raises goes through.
            SwitchgearError: It is a coroutine function or a generator, or can't be called; or ``tool`` can't be the name of a
                tool.
        """
        _check_kind(function, _NO_FUNCTION)
        result: R = run(self._plan(tool), function, args, kwargs).value
        return result

    async def acall(self, tool: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: The circuit refused. What the function raises goes through.
            SwitchgearError: It is a generator, or can't be called; or ``tool`` can't be the name of a tool.
        """
        _check_kind(function, _GENERATORS)
        result: R = (await arun(self._plan(tool), function, args, kwargs)).value
        return result

    @overload
    def answer(self, tool: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    @overload
    def answer(self, guarded: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    def answer(self, first: Any, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """Call a function and return the result with what served it.

        Either ``gear.answer(guarded, …)`` or ``gear.answer("tool", function, …)``.

        Raises:
            CircuitOpenError: The circuit refused and nothing else serves. What the function raises goes through.
            SwitchgearError: The function is not guarded, or is a coroutine function or a generator.
        """
        plan, function, args = self._of(first, args)
        _check_kind(function, _NO_FUNCTION)
        return run(plan, function, args, kwargs).answer()

    @overload
    async def aanswer(
        self, tool: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Answer[R]: ...
    @overload
    async def aanswer(self, guarded: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]: ...
    async def aanswer(self, first: Any, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """:meth:`answer` for coroutine functions."""
        plan, function, args = self._of(first, args)
        _check_kind(function, _GENERATORS)
        return (await arun(plan, function, args, kwargs)).answer()

    def classify_error(self, tool: str, error: BaseException) -> Classification:
        """Return the class of an exception of ``tool``: by the option ``classify``, the client's rule, or the default."""
        return self._plan(tool).classify(error)

    def classify_result(self, tool: str, result: Any) -> Classification | None:
        """Return the class of a result of ``tool`` that is a failure, by the option ``classify_result``. None for a success."""
        return self._plan(tool).failure_in(result)

    def classify_text(self, tool: str, text: str) -> Classification | None:
        """Return the class that the text of a failed answer of ``tool`` tells, None if it tells nothing."""
        found = self._plan(tool).by_text(text)
        return None if found is None else Classification(found)

    def usage_of(self, tool: str, result: Any) -> Usage:
        """Return what a result of ``tool`` says it cost, by the option ``usage``."""
        return self._plan(tool).used(result)

    def usage_of_error(self, tool: str, error: object) -> Usage:
        """Return what an exception of ``tool`` says that the call cost, by the option ``usage``."""
        return self._plan(tool).used_by(error)

    def _plan(self, tool: str) -> GuardPlan:
        if type(tool) is not str:  # a list, for example, can't be looked up in a dict
            arguments.tool_name(tool)
        plan = self._plans.get(tool)
        if plan is None:
            arguments.tool_name(tool)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[tool] = GuardPlan(self._runtime, tool, self.options)
        return plan

    def _of(self, first: Any, args: tuple[Any, ...]) -> tuple[GuardPlan, Callable[..., Any], tuple[Any, ...]]:
        """Return the plan, the bare function and the arguments for the two forms of ``answer``."""
        if isinstance(first, str):
            if not args or not callable(args[0]):
                raise SwitchgearError(f"answer({first!r}, …) needs the function that calls {first}.")
            return self._plan(first), args[0], args[1:]
        found = guarded_by(first)
        if found is None:
            raise SwitchgearError(
                f"{first!r} is not guarded.", hint="Pass a guarded function, or the tool's name and a function."
            )
        bound = getattr(first, "__self__", None) if inspect.ismethod(first) else None
        plan = found.plan
        if self._overrides:
            options = plan.options.override(self._overrides)
            plan = GuardPlan(plan.runtime, plan.tool, options, receiver=plan.receiver)
            plan.group = {**found.plan.group, **plan.group}
        return plan, found.tool.call, args if bound is None else (bound, *args)


def _check_kind(function: Any, flags: int) -> None:
    """Check that the outcome of ``function`` is known when it returns; a coroutine's or a generator's is not.

    Raises:
        SwitchgearError: Its code has one of ``flags``, or it can't be called. The message says what to use instead.
    """
    if type(function) is FunctionType and not function.__code__.co_flags & flags:
        return
    if not callable(function):
        raise SwitchgearError(
            f"The function must be callable, not {function!r:.100}.", hint='gear.call("tool", function, argument)'
        )
    examined = examine(function)
    if examined.kind == "coroutine" and flags & inspect.CO_COROUTINE:
        raise SwitchgearError(f"{examined.name} is a coroutine function.", hint="Use acall or aanswer.")
    if "generator" in examined.kind:
        raise SwitchgearError(f"{examined.name} is a generator function.", hint="Decorate it with guard.")
