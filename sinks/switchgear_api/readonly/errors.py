"""Errors of a reader's query."""

from __future__ import annotations

import re
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError
from switchgear_sinks.clickhouse_errors import (
    INTERNAL,
    NOT_ALLOWED,
    TIMED_OUT,
    TOO_LARGE,
    clickhouse_code,
    clickhouse_message,
)

_SCOPE: Final = re.compile(r":? (?:Expected one of|In scope SELECT formatQuerySingleLine).*$", re.DOTALL)
"""The rest of a message: ClickHouse's list of every token it knows, or the query that we put around the user's."""


_DENIED: Final = "ermission denied"
"""In a failure of the engine: the operating system refused a file to the reader's process."""


class SqlRefusedError(SwitchgearError):
    """The query does something other than reading the store."""


class SqlFailedError(SwitchgearError):
    """ClickHouse can't run the query, for example because of a syntax error or an unknown column."""


class SqlLimitError(SwitchgearError):
    """The query takes more time or memory than allowed."""


def explain(error: ClickHouseError, *, parsing: bool) -> SwitchgearError:
    """Return the error to raise for ClickHouse's. With ``parsing``, the query has not run yet."""
    code, message = clickhouse_code(error), _SCOPE.sub(".", clickhouse_message(error))
    if "Multi-statements are not allowed" in message:
        return SqlRefusedError("Only one statement at a time.", hint="Send them one by one.")
    engine_failed = code is None or code in INTERNAL  # without a number, no answer came
    if code in NOT_ALLOWED or (engine_failed and _DENIED in message):
        return SqlRefusedError(message, hint="Only reading the store's own tables is allowed here.")
    if code in TIMED_OUT:
        return SqlLimitError(message, hint="Narrow the time range, or raise SWITCHGEAR_SQL_MAX_SECONDS.")
    if code in TOO_LARGE:
        return SqlLimitError(message, hint="Aggregate, add a LIMIT, or select fewer columns.")
    if engine_failed:
        return StoreUnavailableError(
            f"ClickHouse itself failed: {message}", hint="Try again. The query is not the cause."
        )
    return SqlFailedError(message, hint="" if parsing else "SHOW TABLES and DESCRIBE TABLE show the names.")
