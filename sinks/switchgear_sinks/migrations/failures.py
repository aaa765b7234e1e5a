"""ClickHouse's refusals as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.migrations.ledger import MigrationError


@contextmanager
def explained(doing: str, hint: str) -> Iterator[None]:
    """Say what was being done where ClickHouse refuses it, and what to do then.

    Raises:
        MigrationError: in place of ClickHouse's error.
    """
    try:
        yield
    except ClickHouseError as error:
        reason = " ".join(str(error).split())[:400]
        raise MigrationError(f"{doing} failed: {reason}", hint=hint) from error
