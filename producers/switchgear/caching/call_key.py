"""CallKey: which calls are the same call: what is called, on which object, with which parameters."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple

import msgspec

from switchgear.runtime.fork import ForkSafe
from switchgear_schemas.errors import SwitchgearError

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


_HEAP: Final = 1 << 9
"""CPython's flag of types that a class statement made; those of extensions may have it too."""
_OF_C: Final = (GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_MODELS: Final = ("__dataclass_fields__", "__pydantic_validator__", "__attrs_attrs__")
"""What classes have whose objects are their fields: dataclasses, pydantic's models, attrs'."""
_NOTES: Final = frozenset({"_attrs_cached_hash"})
"""What an object of theirs notes in itself. Which fields a pydantic model was given is none: a tool may send just those."""
_MAY_BE_EMPTY: Final = "__pydantic_extra__"
"""None or empty, which mean the same."""


class FormlessError(SwitchgearError, TypeError):
    """A value that nobody can tell from others like it: an object of a class unknown here, a function, a stream."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"A value of type {type(value).__qualname__} can't be told from others like it.",
            hint="Give parameters=, a function from the arguments to what identifies the call.",
        )


def form_of(value: Any) -> Any:
    """``value`` in the parts that ``msgspec.json`` encodes; encode them with ``order="deterministic"``.

    Raises:
        FormlessError: there is no form; other exceptions are those of the value's own code.
    """
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if kind is list:
        return [form_of(each) for each in value]
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: form_of(each) for key, each in value.items()}
        return _tagged("dict", _pairs(value))
    return _other(value, kind)


_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})


def _tagged(*parts: Any) -> msgspec.Raw:
    """No JSON begins with this sign, so no other value looks like it."""
    return msgspec.Raw(b"!" + _encoded(parts))


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _sorted(values: Iterable[Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(each) for each in sorted(_encoded(form_of(value)) for value in values)]


def _pairs(value: Mapping[Any, Any]) -> list[msgspec.Raw]:
    pairs = ([form_of(key), form_of(each)] for key, each in value.items())
    return [msgspec.Raw(each) for each in sorted(map(_encoded, pairs))]


def _listed(value: Iterable[Any]) -> list[Any]:
    return [form_of(each) for each in value]


def _moment(value: Any) -> list[Any]:
    """Of a datetime or time: two zones may agree today and not tomorrow."""
    zone = value.tzinfo
    return [value.isoformat(), value.fold, value.tzname(), getattr(zone, "key", getattr(zone, "zone", None))]


_KNOWN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "builtins.str": str.__str__,
    "builtins.int": int.__int__,
    "builtins.float": float.__repr__,
    "builtins.complex": repr,
    "builtins.bytes": bytes.hex,
    "builtins.bytearray": bytearray.hex,
    "builtins.range": repr,
    "builtins.ellipsis": repr,
    "builtins.slice": lambda value: _listed((value.start, value.stop, value.step)),
    "builtins.tuple": _listed,
    "builtins.list": _listed,
    "builtins.set": _sorted,
    "builtins.frozenset": _sorted,
    "builtins.dict": _pairs,
    "builtins.mappingproxy": _pairs,
    "collections.OrderedDict": lambda value: [_listed(pair) for pair in value.items()],
    "collections.deque": lambda value: [_listed(value), value.maxlen],
    "datetime.date": lambda value: value.isoformat(),
    "datetime.datetime": _moment,
    "datetime.time": _moment,
    "datetime.timezone": repr,
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "decimal.Decimal": str,
    "fractions.Fraction": str,
    "ipaddress.IPv4Address": str,
    "ipaddress.IPv6Address": str,
    "pathlib.PurePath": str,
    "pathlib._local.PurePath": str,
    "pydantic.networks._BaseUrl": str,
    "pydantic_core._pydantic_core.Url": str,
    "uuid.UUID": str,
}
"""By the full name of the type, so that none of their modules is imported here."""


def _other(value: Any, kind: type) -> msgspec.Raw:
    name = _full_name(kind)
    known = _KNOWN.get(name)
    if known is not None:
        return _tagged(name, known(value))
    if not _is_known_by(kind):
        raise FormlessError(value)
    if _is_enum(kind):
        return _tagged(name, value.name if isinstance(value.name, str) else form_of(value.value))
    if hasattr(kind, "get_secret_value"):  # pydantic's, which all look alike
        return _tagged(name, form_of(value.get_secret_value()))
    if hasattr(kind, "__struct_fields__"):  # msgspec's
        fields = [form_of(getattr(value, field)) for field in kind.__struct_fields__]
        return _tagged(name, fields, form_of(_in_dict(value) if hasattr(value, "__dict__") else None))
    if not _ours(kind):
        return _tagged(name, *_buffer(value))
    base = next((each for each in kind.__mro__ if _full_name(each) in _KNOWN), None)
    if base is None and not any(hasattr(kind, mark) for mark in _MODELS):
        raise FormlessError(value)
    derived = [each for each in kind.__mro__ if not issubclass(base or object, each)]
    if not all(map(_ours, derived)):
        raise FormlessError(value)
    content = None if base is None else _KNOWN[_full_name(base)](value)
    return _tagged(name, content, form_of(_attributes(value, derived)))


def _attributes(value: Any, kinds: Iterable[type]) -> dict[str, Any]:
    """All that it has, also in the slots of these of its classes, but for what it noted: it is the same object after that."""
    found = _in_dict(value)
    for kind in kinds:
        fields = vars(kind).get("__attrs_attrs__")
        of_attrs = None if fields is None else _names(fields)
        for name, member in vars(kind).items():
            if type(member) is not MemberDescriptorType or (name in _NOTES and name not in _fields(kind)):
                continue
            if of_attrs is not None and name not in of_attrs:  # a cached property: attrs gives each a slot
                continue
            try:
                held = member.__get__(value)
            except AttributeError:  # nothing was put there
                continue
            if name != _MAY_BE_EMPTY or held:  # in this order: an array has no truth
                found[f"{kind.__qualname__}.{name}"] = held
    return found


def _in_dict(value: Any) -> dict[str, Any]:
    """Its ``__dict__`` without the values of cached properties."""
    kind, found = type(value), dict(getattr(value, "__dict__", {}))  # a copy: another thread may note something now
    return {
        name: held
        for name, held in found.items()
        if not (name in _NOTES or isinstance(_in_class(kind, name), cached_property)) or name in _fields(kind)
    }


def _in_class(kind: type, name: str) -> Any:
    for each in kind.__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return None


def _fields(kind: type) -> set[str]:
    """Names of fields, which may be those of a cached property in a class before."""
    found: set[str] = set()
    for each in map(vars, kind.__mro__):
        found.update(each.get("__dataclass_fields__", ()), each.get("__pydantic_fields__", ()))
        found.update(_names(each.get("__attrs_attrs__", ())))
    return found


def _names(fields: Iterable[Any]) -> set[str]:
    return {field.name for field in fields}


def _buffer(value: Any) -> tuple[Any, ...]:
    """Of an array: its type, shape and bytes."""
    kind = type(value)
    if hasattr(kind, "dtype") and hasattr(kind, "shape") and hasattr(kind, "tobytes"):
        if value.dtype.hasobject:
            raise FormlessError(value)
        return str(value.dtype), list(value.shape), value.tobytes().hex()
    try:
        view = memoryview(value)
    except TypeError:
        raise FormlessError(value) from None
    with view:
        return view.format, list(view.shape or ()), view.tobytes().hex()


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_known_by(kind: type) -> bool:
    """Does its name lead to it? One made within a function may have a twin of another user's."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def _is_enum(kind: type) -> bool:
    return any(each.__module__ == "enum" and each.__qualname__ == "Enum" for each in kind.__mro__)


def _ours(kind: type) -> bool:
    """Made by a class statement: all that its objects hold is in their attributes, and not in fields of C."""
    if not kind.__flags__ & _HEAP:
        return False
    return not any(
        isinstance(each, _OF_C) and each.__objclass__ is kind and name not in {"__dict__", "__weakref__"}
        for name, each in vars(kind).items()
    )


def parameters_hash(key: bytes, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """BLAKE2b (RFC 7693) of the parameters under ``key``, 32 hexadecimal characters.

    Equal parameters hash equally whatever the order of keywords, in every process with the same key, and different ones
    differently: see :mod:`switchgear.caching.call_key`.

    Args:
        key: the deployment's secret, 1 to 64 bytes.
        args: positional parameters.
        kwargs: keyword parameters.

    Raises:
        ValueError: the key is empty (the hash could be guessed by trying) or longer than 64 bytes.
        FormlessError: a value can't be told from others like it.
    """
    import hashlib  # noqa: PLC0415 - takes 5 ms to import, and few programs hash parameters

    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"the key must have 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, got {len(key)}")
    canonical = msgspec.json.encode(form_of([list(args), dict(kwargs or {})]), order="deterministic")
    return hashlib.blake2b(canonical, key=key, digest_size=16).hexdigest()


class Tokens(ForkSafe):
    """Thread-safe. An object is not kept alive by its number, and need not be hashable."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()  # the garbage collector may run, and end an object, while this thread holds it
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, thing: Any) -> int:
        """The number of ``thing``.

        Raises:
            TypeError: its type takes no weak reference: nobody would know when it is gone.
        """
        name = id(thing)
        found = self._known.get(name)
        if found is not None and found[0]() is thing:
            return found[1]

        def gone(reference: weakref.ref[Any]) -> None:
            known = self._known.get(name)
            if known is not None and known[0] is reference:  # the next object at this place may have come already
                self._known.pop(name, None)

        with self._lock:
            found = self._known.get(name)
            if found is None or found[0]() is not thing:
                found = self._known[name] = (weakref.ref(thing, gone), next(self._numbers))
            return found[1]

    def forked(self) -> None:
        """In a child of a fork: its own lock; the numbers are as good here."""
        self._lock = threading.RLock()


token_of: Final = Tokens().of
"""The number of an object in this process."""
