"""Secrets by reference: the file names a variable or another file, never the secret itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from switchgear_alerts.errors import AlertsFileError

_MAX_BYTES: Final = 65_536


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
            with Path(name).expanduser().open("rb") as file:
                value = file.read(_MAX_BYTES).decode().strip()
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise AlertsFileError(
                f"The file {name} can't be read: {why}.", hint="Correct its path or its permissions."
            ) from None
        if not value:
            raise AlertsFileError(f"The file {name} is empty.", hint="Write the secret into it.")
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
