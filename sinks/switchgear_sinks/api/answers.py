"""JSON answers, and errors that say what is wrong and the way out."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.responses import Response

from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError
from switchgear_schemas.visible import escaped
from switchgear_sinks.api.readonly import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_sinks.clickhouse_errors import UNKNOWN_TABLE, clickhouse_code, clickhouse_message
from switchgear_sinks.migrations import RetentionError

log = structlog.get_logger()


class NotFoundError(SwitchgearError):
    """There is no such tool, circuit or page."""


class BadRequestError(SwitchgearError):
    """A parameter is missing, unknown or out of range; the message names it."""


class ForbiddenError(SwitchgearError):
    """Whoever asks, or the API itself, may not do that."""


class BusyError(SwitchgearError):
    """Too many queries run already."""


_STATUS: tuple[tuple[type[SwitchgearError], int], ...] = (
    (BadRequestError, 400),
    (RetentionError, 400),
    (SqlFailedError, 400),
    (ForbiddenError, 403),
    (SqlRefusedError, 403),
    (NotFoundError, 404),
    (SqlLimitError, 422),
    (BusyError, 503),
    (StoreUnavailableError, 503),
)


def json_answer(content: Any, status: int = 200) -> Response:
    """A JSON response; datetimes become RFC 3339, UUIDs text, NaN null.

    It may be read in a terminal: what that would obey, or what can't be seen, is written as JSON's escapes.
    """
    text = escaped(msgspec.json.encode(content).decode())
    return Response(text, status_code=status, media_type="application/json")


def error_answer(message: str, status: int, hint: str = "") -> Response:
    """``{"error": …, "hint": …}``."""
    return json_answer({"error": message, "hint": hint}, status)


def answer_to(error: Exception) -> Response:
    """The answer that says what happened; what nobody foresaw is logged and answered as 500."""
    if isinstance(error, SwitchgearError):
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        return error_answer(error.message, status, error.hint)
    if isinstance(error, TimeoutError):
        return error_answer("ClickHouse did not answer in time.", 504, "Narrow the time range, or try again.")
    if isinstance(error, ClickHouseError):
        if clickhouse_code(error) == UNKNOWN_TABLE:
            return error_answer(
                "The tables do not exist yet.", 503, "The sink makes them when it starts; try again in a moment."
            )
        log.error("clickhouse refused a read", error=clickhouse_message(error))
        return error_answer(f"ClickHouse: {clickhouse_message(error)}", 503, "Try again; the log of the API has more.")
    if isinstance(error, OSError):
        return error_answer(f"ClickHouse cannot be reached: {error}.", 503, "Start it; nothing is lost meanwhile.")
    log.error("request failed", exc_info=error)
    return error_answer("The request failed for a reason nobody foresaw.", 500, "The log of the API has the details.")
