"""The migration files: numbered, checksummed, split into statements."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.migrations.layout import Layout

_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(SwitchgearError):
    """The tables cannot be brought to this version; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. ``version`` orders them, ``checksum`` (SHA-256 of the text) shows that an applied one has changed."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Of the text as it is in the file, before the layout is filled in."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def statements(self, layout: Layout) -> list[str]:
        """The statements in order, for this layout. Each ends with ``;`` at the end of a line in the file."""
        lines = (line for line in self.text.splitlines() if not line.lstrip().startswith("--"))
        found = (part.strip() for part in re.split(r";[ \t]*(?:\n|$)", "\n".join(lines)))
        return [layout.fill(part) for part in found if part]


def load_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Every file of ``folder`` (the package's own by default), in order.

    Raises:
        MigrationError: a file is misnamed, or two have the same number.
    """
    source = files("switchgear_sinks.migrations") / "sql" if folder is None else folder
    found: dict[int, Migration] = {}
    for entry in sorted(source.iterdir(), key=lambda each: each.name):
        if not entry.name.endswith(".sql"):
            continue
        match = _NAME.fullmatch(entry.name)
        if match is None:
            raise MigrationError(f"The migration file {entry.name} must be named like 0001_what_it_does.sql.")
        version = int(match[1])
        if version in found:
            raise MigrationError(f"Two migration files have the number {version:04}: rename {entry.name}.")
        found[version] = Migration(version, match[2], entry.read_text(encoding="utf-8"))
    return [found[version] for version in sorted(found)]
