"""Decide where readers' SQL runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from switchgear_api.readonly.errors import SqlRefusedError
from switchgear_api.readonly.runner import ReadingClient
from switchgear_api.readonly.server_user import WAY_OUT, ServerReader
from switchgear_api.sandbox.kernel import missing
from switchgear_api.sandbox.readers import Readers
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store, StoreLocation

READER_SETTING: Final = "clickhouse_reader_url"


@dataclass(frozen=True, slots=True)
class SqlAccess:
    """How to run a reader's query.

    Args:
        connect: Opens a client.
        walls: What limits the query besides the check of its text; for the log.
    """

    connect: Callable[[], ReadingClient]
    walls: str


def sql_access(store: Store, settings: Settings) -> SqlAccess:
    """Return how to run readers' queries on ``store``. Processes for them are closed with ``store``.

    If no query may run at all, ``connect`` raises SqlRefusedError. Its hint says what to set.
    """
    if store.folder is not None:
        return _embedded(store, store.folder, settings)
    if settings.clickhouse_reader_url is None:
        return _refused("SQL runs under a user of the ClickHouse server who may only read, and none is set.", WAY_OUT)
    where = StoreLocation.parse(settings.clickhouse_reader_url, settings.data_dir, READER_SETTING)
    reader = ServerReader(where, settings.clickhouse_connect_timeout_s, settings.sql_max_seconds)
    return SqlAccess(reader.connect, f"the grants of the ClickHouse user {where.username}")


def _embedded(store: Store, folder: Path, settings: Settings) -> SqlAccess:
    lacking = missing()
    if lacking is not None and not settings.sql_unwalled:
        return _refused(
            f"SQL on the embedded engine needs a process that can open no other files, and this system has none: {lacking}.",
            "Use a ClickHouse server, or set SWITCHGEAR_SQL_UNWALLED=true. Then only the check of the query keeps readers from "
            "the files of this machine.",
        )
    readers = Readers(folder, store.database, max_seconds=settings.sql_max_seconds, walled=lacking is None)
    store.close_with_store(readers)
    if lacking is None:
        return SqlAccess(readers.connect, "a process of its own, Landlock, seccomp")
    return SqlAccess(readers.connect, f"a process of its own; no Landlock and no seccomp: {lacking}")


def _refused(message: str, hint: str) -> SqlAccess:
    def connect() -> ReadingClient:
        raise SqlRefusedError(message, hint=hint)

    return SqlAccess(connect, f"refused: {message}")
