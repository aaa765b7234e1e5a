"""Identify calls: what is called, on which object, and with which parameters."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from switchgear.caching.parameters_hash import has_hash


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

    def parameters(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the hash of the parameters. Arguments by position, by name and by default have the same hash.

        Raises:
            UnhashableParameterError: A parameter has no hash. Exceptions of a user's code pass through.
        """
        if self._receiver:
            args = args[1:]
        if self._chosen is not None:
            return self._hashed((self._chosen(*args, **kwargs),))
        bare, args, kwargs = _without_partials(function, args, kwargs)
        signature = _signature_of(bare.__func__ if isinstance(bare, MethodType) else bare)
        if self._receiver or isinstance(bare, MethodType):
            signature = signature._replace(names=signature.names[1:])
        return self._hashed(*_by_name(signature, args, kwargs))

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
        if self._chosen is None or not isinstance(bare, (FunctionType, BuiltinFunctionType, type)):
            tokens.append(token_of(bare))  # an object that can be called has a state of its own
        return " ".join(map(str, tokens))


class _Signature(NamedTuple):
    """The parameters of a function itself. What a decorator's wrapper passes on isn't known."""

    names: tuple[str, ...]
    """Parameters that may be given by position."""
    defaults: Mapping[str, Any]
    unhashable: Mapping[str, Any]
    """Defaults without a hash, such as a sentinel."""


_UNKNOWN: Final = _Signature((), {}, {})
_signatures: Final[weakref.WeakKeyDictionary[Callable[..., Any], _Signature]] = weakref.WeakKeyDictionary()


def _signature_of(function: Callable[..., Any]) -> _Signature:
    try:
        found = _signatures.get(function)
        if found is None:
            found = _signatures[function] = _examined(function)
    except (TypeError, ValueError):  # some functions in C have no signature, some objects no hash
        return _UNKNOWN
    return found


def _examined(function: Callable[..., Any]) -> _Signature:
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):  # a keyword may have the same name
        return _UNKNOWN
    names = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    unhashable = {name: default for name, default in defaults.items() if not has_hash(default)}
    return _Signature(names, {name: defaults[name] for name in defaults if name not in unhashable}, unhashable)


def _by_name(
    signature: _Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments by name, with defaults, and those that have no name. ``inspect`` is too slow for every call."""
    names = signature.names[: len(args)]
    if any(name in kwargs for name in names):  # given twice: the function refuses that
        return (args, kwargs), {}
    named = {**signature.defaults, **dict(zip(names, args, strict=False)), **kwargs}
    for name, default in signature.unhashable.items():
        if named.get(name) is default:
            del named[name]
    return args[len(names) :], named


def _without_partials(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
    """Return the function that a ``functools.partial`` calls, and its arguments."""
    while isinstance(function, functools.partial):
        args, kwargs = function.args + args, {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


_numbers: Final = itertools.count(1)
_tokens: Final[dict[int, int]] = {}
"""The numbers of living objects, by address."""


def token_of(thing: object) -> int:
    """Return the number of a living object, which no other object of this process ever gets. The object need not be hashable.

    Raises:
        TypeError: Its type takes no weak reference.
    """
    address = id(thing)
    if address not in _tokens:
        weakref.finalize(thing, _tokens.pop, address, None).atexit = False
    return _tokens.setdefault(address, next(_numbers))
