"""A form of parameters that is the same for equal values and differs for different ones.

What JSON has (text, whole numbers, finite floats, true, false, null, lists, dicts with text as keys) stays as it is, so that
programs in any process agree. Everything else carries its type: ``("a",)`` is not ``["a"]``, and a date not its ISO text. What
can't be told so has no form: a guess would give one user another's result.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Final

import msgspec

from switchgear_schemas.errors import SwitchgearError

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
