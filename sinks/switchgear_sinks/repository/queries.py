"""Build the SQL of the repositories. ``WHERE`` begins with the table's key: tenant, tool_name, recorded_at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from switchgear_schemas.enums import CALLER_ERRORS

CALLS: Final = "status != 'rejected'"
"""A rejected call was never made. It is not a call, a success or a failure."""
NOT_CANCELLED: Final = "error_class != 'cancelled'"
"""For rows with status ``error`` or ``timeout``. Old rows have cancelled calls as errors of this class."""
FAILED: Final = f"status IN ('error', 'timeout') AND {NOT_CANCELLED}"
CANCELLED: Final = "(status = 'cancelled' OR status IN ('error', 'timeout') AND error_class = 'cancelled')"
_CALLER_CLASSES: Final = ", ".join(f"'{each}'" for each in sorted(CALLER_ERRORS))
TOOLS_OWN: Final = f"error_class NOT IN ({_CALLER_CLASSES})"
"""For failed calls: the error is the tool's. The others are caller errors."""
CALLER_ERROR: Final = f"({FAILED} AND error_class IN ({_CALLER_CLASSES}))"
SUCCEEDED: Final = "(status = 'success' AND error_class != 'policy')"
"""The caller ignores a success of class ``policy``."""
JUDGED: Final = f"({SUCCEEDED} OR {FAILED} AND {TOOLS_OWN})"
"""Calls that count for health, rates and times. The view ``tool_counts_1m_mv`` has the same rule."""

STATS: Final = f"""
    countIf({CALLS}) AS total_calls,
    countIf({SUCCEEDED}) AS success_count,
    countIf(status = 'error' AND {NOT_CANCELLED}) AS error_count,
    countIf(status = 'timeout' AND {NOT_CANCELLED}) AS timeout_count,
    countIf(status = 'rejected') AS rejected_count,
    countIf({CALLER_ERROR}) AS caller_error_count,
    countIf({CANCELLED}) AS cancelled_count,
    if(cancelled_count = 0, 0, avgIf(execution_time_ms, {CANCELLED})) AS avg_cancelled_ms,
    if(countIf({JUDGED}) = 0, 0, avgIf(execution_time_ms, {JUDGED})) AS avg_time_ms,
    minIf(execution_time_ms, {JUDGED}) AS min_time_ms,
    maxIf(execution_time_ms, {JUDGED}) AS max_time_ms,
    sum(input_size) AS total_input_bytes,
    sum(output_size) AS total_output_bytes,
    sum(cost_usd) AS total_cost_usd,
    quantilesTDigestIf(0.5, 0.95, 0.99)(execution_time_ms, {JUDGED}) AS percentiles
"""

_VOLATILE: Final = (
    (r"[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{12}}", "<uuid>"),
    (r"\\b0x[0-9a-fA-F]+\\b", "<hex>"),
    (r"\\b[0-9a-fA-F]*[0-9][0-9a-fA-F]*[a-fA-F][0-9a-fA-F]{{6,}}\\b", "<hex>"),
    (r"\\b[a-zA-Z]+[-_][0-9a-zA-Z]*[0-9][0-9a-zA-Z]*\\b", "<id>"),
    (r"[0-9]+([.,:][0-9]+)*", "<n>"),
    (r"\\s+", " "),
)


def template(expression: str) -> str:
    """Return SQL that removes from a message what differs between errors: ids, hashes, numbers, spacing."""
    for pattern, replacement in _VOLATILE:
        expression = (
            f"replaceRegexpAll({expression}, '{pattern.replace('{{', '{').replace('}}', '}')}', '{replacement}')"
        )
    return f"substringUTF8(trimBoth({expression}), 1, 200)"


class Conditions:
    """A WHERE clause and its parameters. ClickHouse binds every value."""

    def __init__(self, tenant: str | None) -> None:
        self._terms: list[str] = []
        self.parameters: dict[str, Any] = {}
        if tenant is not None:
            self.equal("tenant", tenant)

    def equal(self, column: str, value: str | None) -> Conditions:
        """Require that ``column`` is ``value``. None means any."""
        if value is not None:
            self._terms.append(f"{column} = {{{column}:String}}")
            self.parameters[column] = value
        return self

    def recorded(self, since: datetime | None, until: datetime | None) -> Conditions:
        """Require that a call was recorded from ``since`` to ``until``, both included. None means unbounded."""
        for name, moment, comparison in (("since", since, ">="), ("until", until, "<=")):
            if moment is not None:
                self._terms.append(f"recorded_at {comparison} fromUnixTimestamp64Micro({{{name}:Int64}}, 'UTC')")
                self.parameters[name] = microseconds(moment)
        return self

    def that(self, *terms: str, **parameters: Any) -> Conditions:
        """Add terms in SQL."""
        self._terms.extend(terms)
        self.parameters.update(parameters)
        return self

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._terms)}" if self._terms else ""


def window_end(now: datetime) -> datetime:
    """Return the end of a window up to the present, included: the last microsecond of the next minute.

    Stored times are at most a minute ahead of the broker's clock. Later ones were stored by an older release, or without Kafka.
    """
    return now.replace(second=0, microsecond=0) + timedelta(minutes=2) - timedelta(microseconds=1)


def checked_limit(limit: int) -> int:
    """Return the limit.

    Raises:
        ValueError: It is negative.
    """
    if limit < 0:
        raise ValueError(f"limit must not be negative, got {limit}")
    return limit


def microseconds(moment: datetime) -> int:
    """Return the exact microseconds since 1970. A time without a zone is UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def select(columns: str | Sequence[str], table: str, conditions: Conditions, rest: str = "") -> str:
    """Return a SELECT."""
    listed = columns if isinstance(columns, str) else ", ".join(columns)
    return f"SELECT {listed} FROM {table} {conditions} {rest}"  # noqa: S608 - only our own names; values are bound
