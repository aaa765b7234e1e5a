"""CallKey: which calls are the same call: what is called, on which object, with which parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from switchgear.parameters_form import form_of
from switchgear.tokens import token_of

MOST_SIGNATURES: Final = 1_000
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


class CallKey(NamedTuple):
    """Of one call."""

    parameters: str
    """The hash of its parameters: what its event has, the same in every process."""
    call: str | None
    """Equal for calls of this process that are the same; None for one that is like no other."""


class CallKeys:
    """Of one tool's calls.

    A function is known by itself, not by its name: two closures of one name may act for two users. So is the object of a
    method. Where ``chosen`` says what identifies a call the function is left out, the object is not.

    Args:
        hashed: From positional and keyword parameters to their hash.
        chosen: The option ``parameters``.
        receiver: The first argument is the object that the function is a method of.
    """

    def __init__(self, hashed: Callable[..., str], chosen: Callable[..., Any] | None, *, receiver: bool) -> None:
        self._hashed = hashed
        self._chosen = chosen
        self._receiver = receiver
        self._signatures: dict[int, _Signature] = {}

    def parameters(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The hash of the parameters, however they were written: by position or by name, defaults or not.

        Raises:
            Exception: whatever a user's objects, or the user's function, raise; FormlessError.
        """
        skipped = 1 if self._receiver and args else 0
        if self._chosen is not None:
            return self._hashed((self._chosen(*args[skipped:], **kwargs),))
        bare, args, kwargs = _unfolded(function, args, kwargs)
        args, kwargs = self._signature(bare).bound(args, kwargs)
        return self._hashed(args[skipped:], kwargs)

    def called(self, function: Callable[..., Any], args: tuple[Any, ...]) -> str:
        """What is called, and on which object.

        Raises:
            TypeError: one of these can't be known again: its class has slots, and none for weak references.
        """
        tokens = []
        if self._receiver:
            tokens.append(token_of(args[0]) if args else 0)
        bare, _, _ = _unfolded(function, (), {})
        if isinstance(bare, MethodType):
            tokens.append(token_of(bare.__self__))
            bare = bare.__func__
        if self._chosen is None or not _is_plain(bare):
            tokens.append(token_of(bare))
        return " ".join(map(str, tokens))

    def _signature(self, function: Callable[..., Any]) -> _Signature:
        try:
            token = token_of(function.__func__ if isinstance(function, MethodType) else function)
        except TypeError:
            return _Signature(function)
        found = self._signatures.get(token)
        if found is None:
            if len(self._signatures) >= MOST_SIGNATURES:
                self._signatures.clear()
            found = self._signatures[token] = _Signature(function)
        return found


class _Signature:
    """A function's own: what a decorator's wrapper passes on is not known."""

    __slots__ = ("_defaults", "_formless", "_names", "_signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        self._names: tuple[str, ...] | None = None
        """Of a function whose parameters can all be given either way, which is nearly every one: bound without ado."""
        self._defaults: dict[str, Any] = {}
        self._formless: dict[str, Any] = {}
        """Defaults that can't be told from others, such as a sentinel: left out where they are what is meant."""
        if hasattr(function, "__signature__"):  # somebody's word for it, which need not be true
            return
        try:
            found = inspect.signature(function, follow_wrapped=False)
        except (TypeError, ValueError):  # not every function of C has one
            return
        kinds = {parameter.kind for parameter in found.parameters.values()}
        for name, parameter in found.parameters.items():
            if parameter.default is not parameter.empty:
                (self._defaults if _has_form(parameter.default) else self._formless)[name] = parameter.default
        if not self._formless:
            self._signature = found
            if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
                self._names = tuple(found.parameters)
        elif not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
            self._signature = found  # else what is left out would move the others

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments as the function sees them; as they are where they don't fit."""
        if self._names is not None:
            return self._bound_by_names(self._names, args, kwargs)
        if self._signature is None:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return args, kwargs
        bound.apply_defaults()
        for name, default in self._formless.items():
            if bound.arguments[name] is default:
                del bound.arguments[name]
        return bound.args, bound.kwargs

    def _bound_by_names(self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """A tenth of the time that ``bind`` takes."""
        values, named = list(args), 0
        for name in names[len(args) :]:
            if name in kwargs:
                values.append(kwargs[name])
                named += 1
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                return args, kwargs
        return (tuple(values), {}) if len(values) == len(names) and named == len(kwargs) else (args, kwargs)


def _unfolded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
    """What a partial calls, and with what."""
    while isinstance(function, functools.partial):
        args, kwargs = function.args + args, {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


def _is_plain(function: Any) -> bool:
    """A function or class, and no object that acts as one: that one's state is behind its calls."""
    if isinstance(function, BuiltinFunctionType):
        return isinstance(function.__self__, (ModuleType, type(None)))
    return isinstance(function, (FunctionType, type))


def _has_form(value: Any) -> bool:
    try:
        form_of(value)
    except Exception:  # noqa: BLE001 - a user's object may fail in any way
        return False
    return True
