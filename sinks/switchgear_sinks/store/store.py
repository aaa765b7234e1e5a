"""Open ClickHouse: a server, or the engine in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.query import QueryResult

from switchgear_schemas.errors import StoreUnavailableError
from switchgear_schemas.settings import Settings as SwitchgearSettings
from switchgear_sinks.crashes import end_at_crashes
from switchgear_sinks.store import folder_lock
from switchgear_sinks.store.client_pool import ClientPool, Parameters, Settings
from switchgear_sinks.store.location import StoreLocation
from switchgear_sinks.store.token_repair import forget_tokens_without_data

READERS: Final = 4
WRITERS: Final = 2
_ANSWER_LIMIT_S: Final = 300
_ENGINE_DEFAULTS: Final = Path(__file__).with_name("engine.xml")
_UNCOMPILED: Final = {"compile_expressions": 0, "compile_aggregate_expressions": 0, "compile_sort_description": 0}
"""Compiling the views takes half a second of processor time after each start, which blocks of a few hundred rows never repay."""
_CAUSE: Final = re.compile(r"\[Errno -?\d+\] ([A-Z][\w ]+)")  # of what urllib3 wraps three times


class Closable(Protocol):
    """An object that is closed with the store."""

    def close(self) -> None:
        """Close it. May block."""


class Store:
    """ClickHouse with the database selected, so that tables need no database name.

    Reads and writes have separate client pools; :meth:`client_pool` makes more. A statement raises clickhouse-connect's errors
    (``clickhouse_connect.driver.exceptions``), with ClickHouse's number in ``code``.
    """

    def __init__(self, location: StoreLocation, connect_timeout_s: float, cluster: str | None = None) -> None:
        self.location = location
        self._cluster = cluster
        self.database_exists = True
        self.database = location.database
        self.embedded = location.embedded
        self._connect_timeout_s = connect_timeout_s
        self._folder: Path | None = None
        self._owned: list[Closable] = []
        self._read: ClientPool | None = None
        self._write: ClientPool | None = None
        self._keeper: Client | None = None
        self.server_version = ""

    async def open(self, *, create: bool = True) -> None:
        """Open the engine or connect to the server, and create the database if it is missing.

        Without ``create`` a missing database stays missing. Then ``database_exists`` is False, and no database is selected.

        Raises:
            StoreUnavailableError: Another process owns the folder, or nothing answers at the URL.
        """
        if self.location.folder is not None:
            self._folder = folder_lock.acquire(self.location.folder, forget_tokens_without_data)
        try:
            async with asyncio.timeout(4 * self._connect_timeout_s + 20):
                await asyncio.to_thread(self._prepare, create=create)
        except Exception as error:
            await self.close()
            if not isinstance(error, (ClickHouseError, OSError, TimeoutError)):
                raise
            raise self._unavailable(error) from error
        self._read, self._write = (
            self.client_pool("read", READERS),
            self.client_pool("write", WRITERS, _UNCOMPILED if self.embedded else None),
        )

    def client_pool(self, name: str, size: int, settings: Mapping[str, Any] | None = None) -> ClientPool:
        """Return a pool of ``size`` clients that use ``settings`` for all their statements.

        ``readonly`` is applied last, because ClickHouse refuses every change of a setting after it.
        """
        kept = dict(settings or {})
        if "readonly" in kept:
            kept["readonly"] = kept.pop("readonly")
        pool = ClientPool(name, size, lambda: self.connect(kept), fresh_after_error=self.embedded)
        self._owned.append(pool)
        return pool

    def connect(self, settings: Mapping[str, Any] | None = None) -> Client:
        """Open a client for work that must not share state with other work. It blocks. Close the client after use."""
        return self._connect(self.database if self.database_exists else None, dict(settings or {}))

    @property
    def folder(self) -> Path | None:
        """The folder of the embedded engine, while it is open."""
        return self._folder

    def close_with_store(self, owned: Closable) -> None:
        """Close ``owned`` with the store, before its folder is unlocked."""
        self._owned.append(owned)

    @property
    def reading(self) -> ClientPool:
        """The pool of :meth:`query`."""
        return _opened(self._read)

    @property
    def writing(self) -> ClientPool:
        """The pool of :meth:`command` and :meth:`raw_insert`."""
        return _opened(self._write)

    async def query(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> QueryResult:
        """Run a SELECT. ClickHouse fills ``{name:Type}`` with ``parameters``."""
        return await self.reading.query(sql, parameters, settings)

    async def command(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> Any:
        """Run DDL or another statement without a result set."""
        return await self.writing.command(sql, parameters, settings)

    async def raw_insert(self, table: str, block: bytes, fmt: str = "JSONEachRow", settings: Settings = None) -> None:
        """Insert bytes that are in the format ``fmt``."""
        await self.writing.raw_insert(table, block, fmt, settings)

    async def ping(self) -> bool:
        """Return whether ClickHouse answers ``SELECT 1``."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self.query("SELECT 1")
        except (ClickHouseError, OSError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Wait for the running statements, close every client, and unlock the folder."""
        owned, self._owned = self._owned, []
        for each in owned:
            await asyncio.to_thread(each.close)
        self._read = self._write = None
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await asyncio.to_thread(keeper.close)
        self._unlock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _prepare(self, *, create: bool) -> None:
        client = self._keeper = self._connect(None, {})  # kept open, because the engine shuts down with its last client
        if self.embedded:
            end_at_crashes()
        self.server_version = str(client.server_version)
        known = client.query(
            "SELECT count() FROM system.databases WHERE name = {name:String}", parameters={"name": self.database}
        )
        if known.result_rows[0][0] == 0:
            if create:
                client.command(self.creation)
            self.database_exists = create

    @property
    def creation(self) -> str:
        """The statement that creates the database."""
        on_cluster = "" if self._cluster is None else f" ON CLUSTER `{self._cluster}`"
        return f"CREATE DATABASE IF NOT EXISTS `{self.database}`{on_cluster}"

    def _connect(self, database: str | None, settings: dict[str, Any]) -> Client:
        where = self.location
        if self._folder is not None:
            return clickhouse_connect.get_client(
                interface="chdb",
                path=str(self._folder),
                database=database,
                settings=settings,
                chdb_options={"config-file": str(_ENGINE_DEFAULTS)},
            )
        return clickhouse_connect.get_client(
            interface=where.scheme,
            host=where.host,
            port=where.port,
            username=where.username,
            password=where.password,
            database=database or "default",
            settings=settings,
            connect_timeout=max(1, round(self._connect_timeout_s)),
            send_receive_timeout=_ANSWER_LIMIT_S,
            autogenerate_session_id=False,  # a client per thread needs no session on the server
        )

    def _unlock(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder_lock.release(folder)

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        said = " ".join(str(error).split())
        cause = _CAUSE.search(said)
        reason = cause[1] if cause else said[:300] or type(error).__name__
        if self.embedded:
            return StoreUnavailableError(
                f"The ClickHouse engine could not open {self.location}: {reason}.",
                hint="Free space or correct the folder's rights, or choose another folder with --data-dir.",
            )
        return StoreUnavailableError(
            f"ClickHouse at {self.location} could not be used: {reason}.",
            hint="Start it, or correct SWITCHGEAR_CLICKHOUSE_URL.",
        )


def _opened(pool: ClientPool | None) -> ClientPool:
    if pool is None:
        raise StoreUnavailableError("The connection to ClickHouse is closed.")
    return pool


async def open_store(settings: SwitchgearSettings, *, create: bool = True) -> Store:
    """Open the ClickHouse of ``settings.clickhouse_url``. Close it, or use it as ``async with``.

    Args:
        settings: All settings.
        create: Create the database if it is missing.

    Raises:
        SettingsError: The URL can't be parsed.
        StoreUnavailableError: Another process owns the folder, or nothing answers within ``clickhouse_connect_timeout_s``.
    """
    store = Store(
        StoreLocation.parse(settings.clickhouse_url, settings.data_dir),
        settings.clickhouse_connect_timeout_s,
        settings.clickhouse_cluster,
    )
    await store.open(create=create)
    return store
