"""Answer with JSON, and turn errors into answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.responses import Response

from switchgear.policies import PolicyError
from switchgear_api.readonly import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_http.problem import ProblemError
from switchgear_schemas.errors import BrokerUnavailableError, StoreUnavailableError, SwitchgearError
from switchgear_schemas.visible import escaped
from switchgear_sinks.clickhouse_errors import UNKNOWN_TABLE, clickhouse_code, clickhouse_message
from switchgear_sinks.migrations import RetentionError

log = structlog.get_logger()


class NotFoundError(SwitchgearError):
    """The tool, circuit or page does not exist."""


class BadRequestError(SwitchgearError):
    """A parameter is missing, unknown or out of range. The message names it."""


class ForbiddenError(SwitchgearError):
    """The client, or the API itself, does not have the right to do that."""


class ConflictError(SwitchgearError):
    """The request doesn't fit the present state."""


class BusyError(SwitchgearError):
    """Too many queries are running."""


_STATUS: tuple[tuple[type[SwitchgearError], int], ...] = (
    (BadRequestError, 400),
    (RetentionError, 400),
    (SqlFailedError, 400),
    (ForbiddenError, 403),
    (SqlRefusedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (SqlLimitError, 422),
    (BrokerUnavailableError, 503),
    (BusyError, 503),
    (PolicyError, 503),  # of the file, or of what operators set before: a request's own values are a BadRequestError
    (StoreUnavailableError, 503),
)


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response. Datetimes become RFC 3339, UUIDs text, and NaN null.

    Control characters and invisible characters are escaped, because the answer may be read in a terminal.
    """
    text = escaped(msgspec.json.encode(content).decode())
    return Response(text, status_code=status, media_type="application/json", headers=headers)


def problem_of(error: Exception) -> ProblemError | None:
    """Return the answer to an error of a handler; None if it is a defect."""
    if isinstance(error, ProblemError):
        return _problem(error.status, error.message, error.hint, error.headers)
    if isinstance(error, SwitchgearError):
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        return _problem(status, error.message, error.hint)
    return _of_clickhouse(error)


def _of_clickhouse(error: Exception) -> ProblemError | None:
    if isinstance(error, TimeoutError):
        return _problem(504, "ClickHouse did not answer in time.", "Narrow the time range, or try again.")
    if isinstance(error, ClickHouseError):
        if clickhouse_code(error) == UNKNOWN_TABLE:
            return _problem(
                503, "The tables do not exist yet.", "The sink creates them when it starts; try again in a moment."
            )
        log.error("clickhouse refused a read", error=clickhouse_message(error))
        return _problem(503, f"ClickHouse: {clickhouse_message(error)}", "Try again; the log of the API has more.")
    if isinstance(error, OSError):
        return _problem(503, f"ClickHouse cannot be reached: {error}.", "Start it; nothing is lost meanwhile.")
    return None


def _problem(status: int, detail: str, hint: str, headers: Mapping[str, str] | None = None) -> ProblemError:
    """Return problem details. ``error`` is the same as ``detail``, for older clients."""
    return ProblemError(status, detail, hint, headers, {"error": detail, "hint": hint})
