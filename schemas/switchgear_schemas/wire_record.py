"""What the circuit's and the command's models share: how a record is read, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec
from msgspec import Meta

from switchgear_schemas.errors import InvalidExecutionError

Instant = Annotated[datetime, Meta(tz=True)]
"""An instant with a time zone."""


_Record = TypeVar("_Record", bound="WireRecord")


class WireRecord(msgspec.Struct, frozen=True):
    """A record of a topic. Reading checks every field and converts nothing: ``3.0``, ``"3"`` and ``true`` are not whole numbers."""

    @classmethod
    def from_bytes(cls, value: bytes | None) -> Self:
        """Read the value of a message.

        Raises:
            InvalidExecutionError: It isn't such a record. The error has the field and the reason.
        """
        if not value:
            raise InvalidExecutionError("", "the message is empty")
        try:
            record: Self = _decoders[cls].decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refusal(error) from None
        return record

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read a decoded JSON object, or the values of :meth:`to_dict`. A value may also have the type of its field.

        Raises:
            InvalidExecutionError: It isn't such a record. The error has the field and the reason.
        """
        try:
            return msgspec.convert(dict(fields), cls, dec_hook=_read)
        except msgspec.ValidationError as error:
            raise refusal(error) from None

    def to_bytes(self) -> bytes:
        """Return the message to send."""
        return msgspec.json.encode(self, enc_hook=_written)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-ready values."""
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self, enc_hook=_written))
        return fields


def _read(kind: Any, value: object) -> Any:
    """Read a part that people also write into files: a policy, which is a model of pydantic."""
    return kind.model_validate(value)


_decoders: Final[dict[type[WireRecord], msgspec.json.Decoder[Any]]] = {}


def readable(kind: type[_Record]) -> type[_Record]:
    """Make the decoder of a record's class, as its decorator.

    msgspec 0.22 describes a class when it is first read. Two threads that do so at once crash the process, because one of them sees
    the other's unfinished description. So every class is described while its module is imported.
    """
    _decoders[kind] = msgspec.json.Decoder(kind, dec_hook=_read)
    return kind


def _written(part: Any) -> Any:
    """Return what such a part names. It leaves out what whoever wrote it left out."""
    return part.model_dump(mode="json", exclude_unset=True)


def refusal(error: Exception) -> InvalidExecutionError:
    """Return why a decoder refused a message, with the field.

    A message of msgspec ends with `` - at `$.field` ``, or names a missing or unknown field in its text.
    """
    if not isinstance(error, msgspec.ValidationError):
        return InvalidExecutionError("", f"the message is not JSON: {error}")
    said, found, path = str(error).rpartition(" - at `")
    reason, path = (said, path) if found else (path, "")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if not field and " field `" in reason:
        field = reason.rsplit("`", 2)[1]
    errors = getattr(error.__cause__, "errors", None)
    if errors is not None:  # of pydantic
        first = errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, (field, *first["loc"])))
        reason = first["msg"].removeprefix("Value error, ")
    return InvalidExecutionError(field, reason)
