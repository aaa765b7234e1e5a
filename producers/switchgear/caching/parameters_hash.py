"""Hash the parameters of a call.

Parameters are encoded as JSON with sorted keys. What JSON has counts as it is. Every other value counts with its type, so that
``(1,)`` and ``[1]`` differ. A value without a known encoding has no hash: two different values must never look alike.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

import msgspec

from switchgear_schemas.errors import SwitchgearError


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

    Args:
        key: The deployment's secret, 1 to 64 bytes.
        args: Positional parameters.
        kwargs: Keyword parameters.

    Raises:
        ValueError: The key is empty, so that the hash could be guessed, or longer than 64 bytes.
        UnhashableParameterError: A value has no hash.
    """
    import hashlib  # noqa: PLC0415 - takes 5 ms to import, and few programs hash parameters

    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"The key has {len(key)} bytes. Use 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes.")
    canonical = _encoded(encodable([list(args), dict(kwargs or {})]))
    return hashlib.blake2b(canonical, key=key, digest_size=16).hexdigest()


def has_hash(value: object) -> bool:
    """Return whether ``value`` can be part of the parameters."""
    try:
        encodable(value)
    except Exception:  # noqa: BLE001 - a user's object may fail in any way
        return False
    return True


def encodable(value: Any) -> Any:
    """Return ``value`` in types that ``msgspec.json`` encodes, with everything else under its type's name.

    Raises:
        UnhashableParameterError: There is no encoding. Exceptions of the value's own code pass through.
    """
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if kind is list:
        return [encodable(each) for each in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: encodable(each) for key, each in value.items()}
    name = f"{kind.__module__}.{kind.__qualname__}"
    known = _KNOWN_TYPES.get(name)
    if known is not None:
        return _tagged(name, known(value))
    if not _is_importable(kind):
        raise UnhashableParameterError(value)
    return _tagged(name, _content(value, kind))


_JSON_SCALARS: Final = frozenset({str, int, bool, type(None)})


def _tagged(name: str, content: Any) -> msgspec.Raw:
    """Return the content with its type. No JSON value begins with the mark."""
    return msgspec.Raw(b"!" + _encoded((name, content)))


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _listed(values: Iterable[Any]) -> list[Any]:
    return [encodable(each) for each in values]


def _sorted(values: Iterable[Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(each) for each in sorted(_encoded(encodable(value)) for value in values)]


def _pairs(mapping: Mapping[Any, Any]) -> list[msgspec.Raw]:
    return _sorted([key, each] for key, each in mapping.items())


def _time(value: Any) -> list[Any]:
    """Return a datetime or time with its zone's name: two zones may have the same offset today and another one tomorrow."""
    zone = value.tzinfo
    return [value.isoformat(), value.fold, value.tzname(), getattr(zone, "key", getattr(zone, "zone", None))]


_PATHS: Final = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
_KNOWN_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "builtins.complex": repr,
    "builtins.bytes": bytes.hex,
    "builtins.bytearray": bytearray.hex,
    "builtins.range": repr,
    "builtins.ellipsis": repr,
    "builtins.slice": lambda value: _listed((value.start, value.stop, value.step)),
    "builtins.tuple": _listed,
    "builtins.set": _sorted,
    "builtins.frozenset": _sorted,
    "builtins.dict": _pairs,
    "builtins.mappingproxy": _pairs,
    "collections.Counter": _pairs,
    "collections.OrderedDict": lambda value: _listed(value.items()),
    "collections.deque": lambda value: [_listed(value), value.maxlen],
    "datetime.date": lambda value: value.isoformat(),
    "datetime.datetime": _time,
    "datetime.time": _time,
    "datetime.timezone": repr,
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "decimal.Decimal": str,
    "fractions.Fraction": str,
    "ipaddress.IPv4Address": str,
    "ipaddress.IPv6Address": str,
    "pydantic_core._pydantic_core.Url": str,
    "uuid.UUID": str,
    **{f"{module}.{name}": str for module in ("pathlib", "pathlib._local") for name in _PATHS},
}
"""By the full name of the type, so that none of their modules is imported here."""


def _is_importable(kind: type) -> bool:
    """Return whether the name of a class leads to it. Two classes made by one function may act for two users."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def _content(value: Any, kind: type) -> Any:
    """Return what tells ``value`` from others of its class, ready to encode.

    Raises:
        UnhashableParameterError: It isn't known for this class.
    """
    if isinstance(value, enum.Enum):
        return value.name if isinstance(value.name, str) else encodable(value.value)
    if hasattr(kind, "get_secret_value"):  # pydantic's secrets, whose text looks the same
        return encodable(value.get_secret_value())
    names = _field_names(kind)
    if names is not None:
        return encodable(_fields(value, names))
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and not hasattr(value, "__dict__"):  # a named tuple
        return _listed(value)
    if kind.__module__ == "numpy" and hasattr(kind, "tobytes") and not value.dtype.hasobject:
        return [str(value.dtype), list(value.shape), value.tobytes().hex()]
    if kind.__module__ == "pydantic.networks":
        return str(value)
    raise UnhashableParameterError(value)


def _field_names(kind: Any) -> Iterable[str] | None:
    """Return the names of the fields of a pydantic model, msgspec struct, dataclass or attrs class, None for other classes."""
    if hasattr(kind, "__pydantic_fields_set__"):
        return (*kind.model_fields, "__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")
    if hasattr(kind, "__struct_fields__"):
        return cast("tuple[str, ...]", kind.__struct_fields__)
    # Only a class that is decorated itself: one that is derived from it may hold more than these fields.
    own = vars(kind)
    if "__dataclass_fields__" in own and _is_python(kind):
        return tuple(own["__dataclass_fields__"])
    if "__attrs_attrs__" in own and _is_python(kind):
        return [field.name for field in own["__attrs_attrs__"]]
    return None


def _fields(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields, and the other attributes of the object but for cached ones."""
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    kind = type(value)
    for name, held in dict(getattr(value, "__dict__", {})).items():  # a copy: another thread may set an attribute
        if name != "_attrs_cached_hash" and not isinstance(getattr(kind, name, None), cached_property):
            found.setdefault(name, held)
    return found


_HEAP_TYPE: Final = 1 << 9
"""CPython's flag of types that a class statement makes."""


def _is_python(kind: type) -> bool:
    """Return whether objects of the class have nothing but attributes: exceptions and containers hold more."""
    return all(each.__flags__ & _HEAP_TYPE for each in kind.__mro__[:-1])
