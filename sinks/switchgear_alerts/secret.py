"""Secrets by reference: the file names a variable or another file, never the secret itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from switchgear_alerts.errors import AlertsFileError
from switchgear_schemas.files import read_file

_MAX_BYTES: Final = 65_536
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret: ``env:NAME`` or ``file:PATH``.

    Attributes:
        reference: As it is in the file. It may be shown.
    """

    reference: str

    def reveal(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the secret.

        Raises:
            AlertsFileError: The variable is not set, or the file can't be read. The error doesn't show the secret.
        """
        kind, _, name = self.reference.partition(":")
        if kind == "env":
            value = environment.get(name, "").strip()
            if not value:
                raise AlertsFileError(
                    f"The variable {name} is not set ({self.reference}).", hint="Set it, or correct its name."
                )
            return value
        try:
            value = read_file(Path(name).expanduser(), _MAX_BYTES).decode("utf-8-sig").strip()
        except (OSError, RuntimeError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise AlertsFileError(
                f"The file {name} can't be read: {why}.", hint="Correct its path or its permissions."
            ) from None
        if not value:
            raise AlertsFileError(f"The file {name} is empty.", hint="Write the secret into it.")
        return value

    def reveal_line(self, key: str, *, ascii_only: bool = False) -> str:
        """Return a token or a password, which is one line.

        Args:
            key: The receiver's key that names it, for the error.
            ascii_only: It stands in an HTTP header as it is.

        Raises:
            AlertsFileError: As of :meth:`reveal`; or it has control characters, or others that are not allowed.
        """
        value = self.reveal()
        if (_NOT_ASCII if ascii_only else _CONTROLS).search(value):
            raise AlertsFileError(
                f"Key {key}: the secret in {self.reference} is not one line{' of ASCII characters' if ascii_only else ''}.",
                hint="Write the secret alone, without control characters.",
            )
        return value

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how pydantic reads a reference."""
        return core_schema.no_info_plain_validator_function(_reference)


def _reference(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if isinstance(value, str):
        kind, _, name = value.partition(":")
        if kind in {"env", "file"} and name.strip() and not value.startswith("file://"):
            return Secret(f"{kind}:{name.strip()}")
    raise ValueError('is a secret: write where it is, "env:NAME" or "file:/path", and not the secret itself')
