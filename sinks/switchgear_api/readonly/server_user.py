"""Run readers' SQL on a ClickHouse server under its own user, whose rights are the second wall."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_api.readonly.errors import SqlRefusedError
from switchgear_sinks.clickhouse_errors import clickhouse_message
from switchgear_sinks.store import StoreLocation

WAY_OUT: Final = (
    "On the server: CREATE USER switchgear_reader IDENTIFIED BY '…' SETTINGS readonly = 2; "
    "GRANT SELECT ON switchgear.* TO switchgear_reader; GRANT SELECT ON system.parts TO switchgear_reader. "
    "Then set SWITCHGEAR_CLICKHOUSE_READER_URL=http://switchgear_reader:…@host:8123/switchgear."
)
SYSTEM_TABLES: Final = frozenset({"columns", "functions", "parts", "table_functions", "tables"})
_HARMLESS: Final = frozenset({"SELECT", "SHOW", "SHOW COLUMNS", "SHOW DATABASES", "SHOW DICTIONARIES", "SHOW TABLES"})
_GRANT: Final = re.compile(
    r"^GRANT (?P<rights>.+) ON (?P<database>`[^`]+`|\w+)\.(?P<table>\*|`[^`]+`|\w+) TO (?:`[^`]+`|[\w.@-]+)$"
)
_ROLE: Final = re.compile(r"^GRANT (?:`[^`]+`|[\w.@-]+)(?:, (?:`[^`]+`|[\w.@-]+))* TO (?:`[^`]+`|[\w.@-]+)$")
_COLUMNS: Final = re.compile(r"\([^()]*\)")
_CHECKED_FOR_S: Final = 60.0
_GRACE_S: Final = 5.0


def too_much(grants: Iterable[str], readonly: str, database: str) -> str | None:
    """Return the right that a user has and a reader should not have, as a clause; None if it may only read ``database``.

    Args:
        grants: Lines of ``SHOW GRANTS FINAL``: the rights, including those from roles.
        readonly: Its setting of that name.
        database: The store's database.
    """
    if readonly != "2":
        return f"its setting readonly is {readonly}, not 2, under which it can set limits and nothing else"
    for line in grants:
        if line.startswith("REVOKE ") or _ROLE.match(line):
            continue
        grant = _GRANT.match(line)
        rights = set() if grant is None else {each.strip() for each in _COLUMNS.sub("", grant["rights"]).split(",")}
        if grant is None or not rights <= _HARMLESS or not _of_the_store(grant["database"], grant["table"], database):
            return f"it has more rights than to read {database}: {line}"
    return None


def _of_the_store(granted: str, table: str, database: str) -> bool:
    name = granted.strip("`")
    known = name == database or name.lower() == "information_schema"
    return known or (name == "system" and table.strip("`") in SYSTEM_TABLES)


class ServerReader:
    """Opens clients under the reader's user, after a check that this user may only read."""

    def __init__(self, where: StoreLocation, connect_timeout_s: float, max_seconds: float) -> None:
        self._where = where
        self._connect_s = max(1, round(connect_timeout_s))
        self._answer_s = max_seconds + _GRACE_S  # a live server stops the query itself, earlier
        self._checked_at: float | None = None

    def connect(self) -> Client:
        """Open a client on the database. It blocks. Close the client after use.

        Raises:
            SqlRefusedError: The user has more rights, or its rights can't be read.
            ClickHouseError: The server does not answer, or does not know the user.
        """
        where = self._where
        client = clickhouse_connect.get_client(
            interface=where.scheme,
            host=where.host,
            port=where.port,
            username=where.username,
            password=where.password,
            database=where.database,
            connect_timeout=self._connect_s,
            send_receive_timeout=round(self._answer_s),
            autogenerate_session_id=False,
        )
        try:
            self._check(client)
        except BaseException:
            client.close()
            raise
        return client

    def _check(self, client: Client) -> None:
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at < _CHECKED_FOR_S:
            return
        try:
            grants = (
                client.raw_query("SHOW GRANTS FINAL", fmt="TabSeparatedRaw").decode("utf-8", "replace").splitlines()
            )
            readonly = client.raw_query("SELECT getSetting('readonly')", fmt="TabSeparatedRaw").decode().strip()
        except ClickHouseError as error:
            raise SqlRefusedError(
                f"The rights of the ClickHouse user {self._where.username} cannot be read: {clickhouse_message(error)}",
                hint=WAY_OUT,
            ) from None
        problem = too_much(grants, readonly, self._where.database)
        if problem is not None:
            raise SqlRefusedError(
                f"SQL may not run under the ClickHouse user {self._where.username}: {problem}.", hint=WAY_OUT
            )
        self._checked_at = now
