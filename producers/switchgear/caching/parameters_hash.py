"""Hash the parameters of a call.

Parameters are encoded as JSON with sorted keys. What JSON has counts as it is. Every other value counts with its type, so that
``(1,)`` and ``[1]`` differ. A value without a known encoding has no hash: two different values must never look alike.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from switchgear_schemas.errors import SwitchgearError

_JSON_SCALARS: Final = frozenset({str, int, bool, type(None)})
_WRITTEN_TYPES: Final = frozenset({bytes, bytearray, complex, range, type(...)})
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
    if kind in _JSON_SCALARS or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [encodable(each) for each in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: encodable(each) for key, each in value.items()}
    # With its type. No JSON value begins with the mark.
    return msgspec.Raw(b"!" + _encoded((f"{kind.__module__}.{kind.__qualname__}", _content(value, kind))))


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _sorted(values: Iterable[Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(each) for each in sorted(_encoded(encodable(value)) for value in values)]


def _content(value: Any, kind: Any) -> Any:
    if kind is float or kind in _WRITTEN_TYPES or kind.__module__ in _WRITTEN_MODULES:
        return repr(value)
    if kind in {set, frozenset}:
        return _sorted(value)
    if kind is dict:
        return _sorted([key, each] for key, each in value.items())
    return encodable(_parts(value, kind))


def _parts(value: Any, kind: Any) -> Any:
    """Return what distinguishes ``value`` from others of its class."""
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return list(value)
    if isinstance(value, enum.Enum):
        return value.name or value.value
    if hasattr(kind, "get_secret_value"):  # pydantic's secrets, whose text looks the same
        return value.get_secret_value()
    if kind.__module__ == "numpy" and hasattr(kind, "tobytes") and not value.dtype.hasobject:
        return [str(value.dtype), list(value.shape), value.tobytes().hex()]
    names = _field_names(kind)
    if names is None:
        raise UnhashableParameterError(value)
    return {name: getattr(value, name, None) for name in names}


def _field_names(kind: Any) -> Iterable[str] | None:
    """Return the names of the fields of a pydantic model, msgspec struct, dataclass or attrs class, None for other classes.

    A class that is only derived from a dataclass or attrs class may hold more than its fields.
    """
    own = vars(kind)
    if hasattr(kind, "__pydantic_fields_set__"):
        return (*kind.model_fields, *_OF_PYDANTIC)
    if "__attrs_attrs__" in own:
        return [field.name for field in own["__attrs_attrs__"]]
    fields: Iterable[str] | None = getattr(kind, "__struct_fields__", None)
    return own.get("__dataclass_fields__") if fields is None else fields
