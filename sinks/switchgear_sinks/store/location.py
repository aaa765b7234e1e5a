"""Parse ``clickhouse_url``: where ClickHouse is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from switchgear_schemas.errors import SettingsError

DEFAULT_DATABASE: Final = "switchgear"
DEFAULT_FOLDER: Final = "clickhouse"
_PORTS: Final = {"http": 8123, "https": 8443}


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A ClickHouse server (``host`` is set) or a folder of the engine in the process (``folder`` is set)."""

    database: str = DEFAULT_DATABASE
    folder: Path | None = None
    scheme: str = "http"
    host: str = ""
    port: int = 0
    username: str = "default"
    password: str = field(default="", repr=False)

    @property
    def embedded(self) -> bool:
        """The engine runs in this process, and no other process may open the folder."""
        return self.folder is not None

    def __str__(self) -> str:
        """Return the location for messages, without the password."""
        if self.embedded:
            return str(self.folder)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.database}"

    @classmethod
    def parse(cls, url: str, data_dir: Path, setting: str = "clickhouse_url") -> StoreLocation:
        """Parse ``chdb:``, ``chdb:/folder`` or ``http(s)://user:password@host:port/database``.

        Args:
            url: ``chdb:`` alone means the folder ``clickhouse`` in ``data_dir``. A URL without a path means the database
                ``switchgear``.
            data_dir: The data folder.
            setting: Where the URL was set, for errors.

        Raises:
            SettingsError: The URL has no host, or a part that ClickHouse can't use.
        """
        if url.startswith("chdb:"):
            path = url.removeprefix("chdb:")
            return cls(folder=Path(path).expanduser() if path else data_dir / DEFAULT_FOLDER)
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if not parts.hostname or port == 0:
            raise SettingsError(
                f"{setting} must name a host and, where it is not the default, a port.",
                hint="Write it like http://user:password@localhost:8123/switchgear.",
            )
        database = unquote(parts.path.strip("/")) or DEFAULT_DATABASE
        if not database.replace("_", "").isalnum() or parts.query:
            raise SettingsError(
                f"{setting} must end with a database of letters, digits and underscores, got {parts.path!r}.",
                hint="Write it like http://user:password@localhost:8123/switchgear.",
            )
        return cls(
            database=database,
            scheme=parts.scheme,
            host=parts.hostname,
            port=port or _PORTS[parts.scheme],
            username=unquote(parts.username or "default"),
            password=unquote(parts.password or ""),
        )
