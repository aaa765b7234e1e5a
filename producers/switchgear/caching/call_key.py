"""Identify calls: what is called, on which object, and with which parameters.

Parameters are hashed. For that they are written as text, each value with its type, so that ``(1,)`` and ``[1]`` differ. A value
whose class is unknown has no hash: two different values must never look alike.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from switchgear_schemas.errors import SwitchgearError


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
        if self._chosen is not None:
            return self._hashed((self._chosen(*(args[1:] if self._receiver else args), **kwargs),))
        return self._hashed(*self.named(function, args, kwargs))

    def named(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments without a name, and the others by name, with defaults. The object of a method is left out."""
        if self._receiver:
            args = args[1:]
        bare, args, kwargs = _without_partials(function, args, kwargs)
        signature = _signature_of(bare.__func__ if isinstance(bare, MethodType) else bare)
        if self._receiver or isinstance(bare, MethodType):
            signature = signature._replace(names=signature.names[1:])
        return _by_name(signature, args, kwargs)

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
    """Without those that have no hash, such as a sentinel."""


_UNKNOWN: Final = _Signature((), {})
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
    defaults = {}
    for each in parameters:
        with contextlib.suppress(Exception):  # a user's object may fail in any way
            if each.default is not each.empty:
                _written(each.default)
                defaults[each.name] = each.default
    return _Signature(names, defaults)


def _by_name(
    signature: _Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments by name, with defaults, and those that have no name. ``inspect`` is too slow for every call."""
    names = signature.names[: len(args)]
    if not kwargs.keys().isdisjoint(names):  # given twice: the function refuses that
        return (args, kwargs), {}
    return args[len(names) :], {**signature.defaults, **dict(zip(names, args, strict=False)), **kwargs}


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


# -- the hash of parameters -------------------------------------------------------------------------------------------

_WRITTEN_TYPES: Final = frozenset({str, int, bool, float, complex, type(None), bytes, bytearray, range, type(...)})
_WRITTEN_MODULES: Final = frozenset(
    {
        "datetime",
        "decimal",
        "fractions",
        "ipaddress",
        "pathlib",
        "pathlib._local",
        "pydantic.networks",
        "pydantic_core._pydantic_core",
        "uuid",
    }
)
"""Modules whose objects have a ``repr`` that says all about them. By name, so that none of them is imported here."""
_OF_PYDANTIC: Final = ("__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")


class UnhashableParameterError(SwitchgearError, TypeError):
    """A value has no hash: an object of an unknown class, a function, a stream."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"A value of type {type(value).__qualname__} has no hash, because equal values of this type can't be recognized.",
            hint="Give parameters=, a function from the arguments to what identifies the call.",
        )


def parameters_hash(key: bytes, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """Return the keyed BLAKE2b hash (RFC 7693) of the parameters, 32 hexadecimal characters.

    Equal parameters have the same hash in every process with the same key, whatever the order of keywords.

    Raises:
        UnhashableParameterError: A value has no hash.
    """
    import hashlib  # noqa: PLC0415 - takes 5 ms to import, and few programs hash parameters

    text = f"{_written(list(args))}{_written(dict(kwargs or {}))}"
    return hashlib.blake2b(text.encode(), key=key, digest_size=16).hexdigest()


def _written(value: Any) -> str:
    """Return a text that is the same for equal values only.

    Raises:
        UnhashableParameterError: There is no such text. Exceptions of the value's own code pass through.
    """
    kind = type(value)
    if kind in _WRITTEN_TYPES or kind.__module__ in _WRITTEN_MODULES:
        return repr(value)
    if kind is list:
        return f"[{','.join(map(_written, value))}]"
    if kind is dict:
        return f"{{{','.join(sorted(f'{_written(name)}:{_written(each)}' for name, each in value.items()))}}}"
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in {set, frozenset}:
        return f"{name}({','.join(sorted(map(_written, value)))})"
    return f"{name}{_written(_parts(value, kind))}"


def _parts(value: Any, kind: Any) -> Any:
    """Return what distinguishes ``value`` from others of its class."""
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return list(value)
    if isinstance(value, enum.Enum):
        return value.name or value.value
    if hasattr(kind, "get_secret_value"):  # pydantic's secrets, whose text looks the same
        return value.get_secret_value()
    if kind.__module__ == "numpy" and hasattr(kind, "tobytes") and not value.dtype.hasobject:
        return [str(value.dtype), list(value.shape), value.tobytes()]
    own = vars(kind)  # a class that is only derived from a dataclass or attrs class may hold more than its fields
    if hasattr(kind, "__pydantic_fields_set__"):
        names: Iterable[str] = (*kind.model_fields, *_OF_PYDANTIC)
    elif "__attrs_attrs__" in own:
        names = [field.name for field in own["__attrs_attrs__"]]
    elif "__dataclass_fields__" in own:
        names = own["__dataclass_fields__"]
    elif hasattr(kind, "__struct_fields__"):  # msgspec
        names = kind.__struct_fields__
    else:
        raise UnhashableParameterError(value)
    return {name: getattr(value, name, None) for name in names}
