"""Identify calls: what is called, on which object, and with which parameters."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from switchgear.caching.parameters_hash import has_hash

MOST_SIGNATURES: Final = 1_000
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


class CallKey(NamedTuple):
    """The identity of one call."""

    parameters: str
    """The hash of its parameters. Every process with the same key has the same hash, and events carry it."""
    call: str | None
    """Equal for the same calls of this process. None for a call that is like no other."""


class CallKeys:
    """Identify the calls of one tool.

    A function is identified by itself, not by its name: two closures with one name may act for two users. The object of a
    method is identified in the same way. If ``chosen`` says what identifies a call, the function doesn't count, but the object does.

    Args:
        hashed: Returns the hash of positional and keyword parameters.
        chosen: The option ``parameters``.
        receiver: The first argument is the object that the function is a method of.
    """

    def __init__(self, hashed: Callable[..., str], chosen: Callable[..., Any] | None, *, receiver: bool) -> None:
        self._hashed = hashed
        self._chosen = chosen
        self._receiver = receiver
        self._signatures: dict[int, _Signature] = {}

    def parameters(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the hash of the parameters. Arguments by position, by name and by default have the same hash.

        Raises:
            UnhashableParameterError: A parameter has no hash. Exceptions of a user's code pass through.
        """
        skipped = 1 if self._receiver and args else 0
        if self._chosen is not None:
            return self._hashed((self._chosen(*args[skipped:], **kwargs),))
        bare, args, kwargs = _without_partials(function, args, kwargs)
        args, kwargs = self._signature(bare).bind(args, kwargs)
        return self._hashed(args[skipped:], kwargs)

    def called(self, function: Callable[..., Any], args: tuple[Any, ...]) -> str:
        """Return the identity of what is called and of the object it is called on.

        Raises:
            TypeError: One of these can't be identified: its class has ``__slots__`` without ``__weakref__``.
        """
        tokens = []
        if self._receiver:
            tokens.append(token_of(args[0]) if args else 0)
        bare, _, _ = _without_partials(function, (), {})
        if isinstance(bare, MethodType):
            tokens.append(token_of(bare.__self__))
            bare = bare.__func__
        if self._chosen is None or not _is_function_or_class(bare):
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
    """The parameters of a function itself. What a decorator's wrapper passes on isn't known."""

    __slots__ = ("_defaults", "_names", "_signature", "_unhashable")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        self._names: tuple[str, ...] | None = None
        """Parameters of a function that takes each of them by position or by name, as nearly every one does."""
        self._defaults: dict[str, Any] = {}
        self._unhashable: dict[str, Any] = {}
        """Defaults without a hash, such as a sentinel. They are left out of the hash."""
        if hasattr(function, "__signature__"):  # written by hand: it may be wrong
            return
        try:
            signature = inspect.signature(function, follow_wrapped=False)
        except (TypeError, ValueError):  # some functions in C have none
            return
        for name, parameter in signature.parameters.items():
            if parameter.default is not parameter.empty:
                (self._defaults if has_hash(parameter.default) else self._unhashable)[name] = parameter.default
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if not self._unhashable:
            self._signature = signature
            if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
                self._names = tuple(signature.parameters)
        elif not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
            self._signature = signature  # otherwise leaving out a default would move the arguments after it

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Return the arguments as the function sees them, or unchanged if they don't fit."""
        if self._names is not None:
            return self._bind_by_names(self._names, args, kwargs)
        if self._signature is None:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return args, kwargs
        bound.apply_defaults()
        for name, default in self._unhashable.items():
            if bound.arguments[name] is default:
                del bound.arguments[name]
        return bound.args, bound.kwargs

    def _bind_by_names(self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Do the same as ``inspect.Signature.bind``, which is too slow for every call."""
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


def _without_partials(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
    """Return the function that a ``functools.partial`` calls, and its arguments."""
    while isinstance(function, functools.partial):
        args, kwargs = function.args + args, {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


def _is_function_or_class(called: Any) -> bool:
    """Return whether ``called`` has no state of its own, as a callable object has."""
    if isinstance(called, BuiltinFunctionType):
        return isinstance(called.__self__, (ModuleType, type(None)))
    return isinstance(called, (FunctionType, type))


class Tokens:
    """Give each living object a number that no other object ever gets. Thread-safe, without a lock.

    The object need not be hashable, and its number doesn't keep it alive.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, thing: Any) -> int:
        """Return the number of ``thing``.

        Raises:
            TypeError: Its type takes no weak reference.
        """
        address = id(thing)
        found = self._known.get(address)
        if found is not None and found[0]() is thing:
            return found[1]

        def forget(reference: weakref.ref[Any]) -> None:
            known = self._known.get(address)
            if known is not None and known[0] is reference:  # another object may have this address by now
                self._known.pop(address, None)

        made = (weakref.ref(thing, forget), next(self._numbers))
        found = self._known.setdefault(address, made)  # atomic: threads agree on one number
        if found[0]() is not thing:
            found = self._known[address] = made
        return found[1]


token_of: Final = Tokens().of
"""Return the number of an object in this process."""
