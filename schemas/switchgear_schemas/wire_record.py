"""What the circuit's and the command's models share: how a record is read, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from switchgear_schemas.errors import InvalidExecutionError


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
            return msgspec.json.decode(value, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refusal(error) from None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read a decoded JSON object, or the values of :meth:`to_dict`. A value may also have the type of its field.

        Raises:
            InvalidExecutionError: It isn't such a record. The error has the field and the reason.
        """
        try:
            return msgspec.convert(dict(fields), cls)
        except msgspec.ValidationError as error:
            raise refusal(error) from None

    def to_bytes(self) -> bytes:
        """Return the message to send."""
        return msgspec.json.encode(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-ready values."""
        fields: dict[str, Any] = msgspec.json.decode(self.to_bytes())
        return fields


def refusal(error: Exception) -> InvalidExecutionError:
    """Return why a decoder refused a message, with the field.

    A message of msgspec ends with `` - at `$.field` ``, or names a missing field in its text.
    """
    if not isinstance(error, msgspec.ValidationError):
        return InvalidExecutionError("", f"the message is not JSON: {error}")
    reason, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if not field and "missing required field" in reason:
        field = reason.rsplit("`", 2)[1]
    return InvalidExecutionError(field, reason)
