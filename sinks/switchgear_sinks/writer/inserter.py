"""Insert one batch under its token: take out the invalid rows, and retry every other failure that passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from clickhouse_connect.driver.client import Client

from switchgear.runtime.backoff import Backoff
from switchgear_schemas.errors import InvalidExecutionError, SwitchgearError
from switchgear_sinks.clickhouse_errors import (
    INCORRECT_DATA,
    InsertFailure,
    InsertFailureKind,
    classify_insert_failure,
)
from switchgear_sinks.store import Store
from switchgear_sinks.writer.batches import Batch
from switchgear_sinks.writer.dead_letters import DeadLetterProducer
from switchgear_sinks.writer.repeated_fields import repeats_a_field
from switchgear_sinks.writer.resent import ResentEvents
from switchgear_sinks.writer.rows import RowMaker, Rows
from switchgear_sinks.writer.settings import WriterLimits, WriterMetrics

log = structlog.get_logger()

INSERT_SETTINGS: Final = {
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,  # its default has changed twice
    "async_insert": 0,
    "date_time_input_format": "best_effort",
    "input_format_parallel_parsing": 0,  # exact row numbers in errors
    "input_format_skip_unknown_fields": 1,
    "input_format_null_as_default": 1,
    "input_format_defaults_for_omitted_fields": 1,
    "input_format_json_read_objects_as_strings": 1,
    "max_insert_block_size": 1_000_000,  # one batch is one block, so it is stored whole or not at all
    "throw_on_max_partitions_per_insert_block": 0,  # a batch may have old and new calls
}
SUSPECTS: Final = 4
"""After ClickHouse has named so many invalid rows in one batch, all its other rows are validated in full."""


class InsertRefusedError(SwitchgearError):
    """ClickHouse refuses the insert for a reason that neither waiting nor leaving out a row resolves."""


class Inserter:
    """Inserts the batches of one topic into one table.

    Args:
        store: Where to insert.
        maker: Makes rows of records.
        dead: Takes the records that are none.
        metrics: The metrics to count in.
        limits: How long to wait between attempts.
        begin: Awaited until it returns True once, before the first insert. Its failures are those of an insert.
    """

    def __init__(
        self,
        store: Store,
        maker: RowMaker,
        dead: DeadLetterProducer,
        metrics: WriterMetrics,
        limits: WriterLimits,
        begin: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._begin = begin
        self._store = store
        self._maker = maker
        self._dead = dead
        self._metrics = metrics
        self._limits = limits
        self._resent = ResentEvents(store, maker.table)

    async def insert(self, topic: str, batch: Batch, fence: Callable[[], Awaitable[None]]) -> float:
        """Store ``batch``, and return the seconds that the insert took. The broker acknowledges the dead letters before.

        Args:
            topic: The batch's topic.
            batch: What to store.
            fence: Awaited before each attempt. It raises if other processes own the partitions.

        Raises:
            InsertRefusedError: ClickHouse refused for a reason that does not pass by itself and names no row.
        """
        rows = await asyncio.to_thread(self._maker.rows, batch.records)
        await self._send_dead_letters(rows)
        if self._begin is not None:
            await self._retried(self._begin, batch, fence)
            self._begin = None
        if self._resent.concern(batch, rows):
            await self._retried(lambda: self._remove_resent(batch, rows), batch, fence)
        took_s = 0.0

        async def insert() -> bool:
            nonlocal took_s
            started = time.perf_counter()
            done = await self._insert(rows, batch.intent.token(topic))
            took_s = time.perf_counter() - started
            return done

        await self._retried(insert, batch, fence)
        self._resent.note_stored(rows)
        return took_s

    async def _retried(
        self, attempt: Callable[[], Awaitable[bool]], batch: Batch, fence: Callable[[], Awaitable[None]]
    ) -> None:
        """Run ``attempt`` until it returns True. Wait between failures, longer each time."""
        backoff, failing = Backoff(self._limits.retry_first_s, self._limits.retry_longest_s), False
        try:
            while True:
                await fence()
                try:
                    done = await attempt()
                except Exception as error:
                    failure = classify_insert_failure(error)
                    if failure.kind is not InsertFailureKind.RETRY:
                        raise _refused(self._maker.table, failure) from error
                else:
                    if done:
                        return
                    continue
                if not failing:
                    failing = True
                    self._metrics.failing.inc(len(batch.intent.ranges))
                self._metrics.retries.labels(str(failure.code or "unreachable")).inc()
                wait_s = backoff.next_s()
                log.warning(
                    "disk full, the insert waits for space" if failure.disk_full else "insert failed, trying again",
                    table=self._maker.table,
                    code=failure.code,
                    reason=failure.reason,
                    wait_s=round(wait_s, 1),
                )
                await asyncio.sleep(wait_s)
        finally:
            if failing:
                self._metrics.failing.dec(len(batch.intent.ranges))

    async def _insert(self, rows: Rows, token: str) -> bool:
        """Try to insert once. Return False if an invalid row was found and removed, so that the next attempt may succeed."""
        if not rows.values:
            return True
        table, started = self._maker.table, time.perf_counter()

        def work(client: Client) -> int:
            block = b"\n".join(rows.values)
            client.raw_insert(table, insert_block=block, fmt="JSONEachRow", settings=_settings(token))
            return len(block)

        try:
            size = await self._store.writing.run(work)
        except Exception as error:
            failure = classify_insert_failure(error)
            if failure.row is None or not 0 <= failure.row < len(rows.values):
                raise
            rows.named += 1
            await asyncio.to_thread(self._resolve_invalid_row, rows, failure, failure.row)
            await self._send_dead_letters(rows)
            return False
        self._metrics.rows.labels(table).inc(len(rows.values))
        self._metrics.batches.labels(table).inc()
        self._metrics.bytes.labels(table).inc(size)
        self._metrics.insert_seconds.labels(table).observe(time.perf_counter() - started)
        return True

    def _resolve_invalid_row(self, rows: Rows, failure: InsertFailure, named: int) -> None:
        """Validate the row that ClickHouse named, and encode it again. If that doesn't help, make it a dead letter.

        ClickHouse names one row per insert and parses the whole batch each time. So rows that name a field twice are resolved
        together, and after :data:`SUSPECTS` named rows all are validated. Only the insert that succeeds stores rows under the
        batch's token, so a replay may take another way to it.
        """
        repeated = _rows_with_a_repeated_field(rows) if failure.code == INCORRECT_DATA else set()
        if repeated:
            self._validate(rows, repeated)
        elif rows.canonical[named]:
            rows.reject(rows.records[named], InvalidExecutionError("", f"ClickHouse refuses the row: {failure.reason}"))
            rows.remove({named})
        elif rows.named <= SUSPECTS:
            self._validate(rows, {named})
        else:
            self._validate(rows, {index for index, done in enumerate(rows.canonical) if not done})

    def _validate(self, rows: Rows, indexes: set[int]) -> None:
        rows.remove({index for index in indexes if not rows.make_canonical(index, self._maker.canonical)})

    async def _remove_resent(self, batch: Batch, rows: Rows) -> bool:
        self._metrics.skipped.labels("resent").inc(await self._resent.drop(batch, rows))
        return True

    async def _send_dead_letters(self, rows: Rows) -> None:
        for why, count in rows.skipped.items():
            self._metrics.skipped.labels(why).inc(count)
        rows.skipped.clear()
        for (emitter, clock), count in rows.wrong_clocks.items():
            self._metrics.count_wrong_clock(emitter, clock, count)
        rows.wrong_clocks.clear()
        await self._dead.send(rows.take_dead())


def _rows_with_a_repeated_field(rows: Rows) -> set[int]:
    return {index for index, value in enumerate(rows.values) if not rows.canonical[index] and repeats_a_field(value)}


def _settings(token: str) -> dict[str, Any]:
    return {**INSERT_SETTINGS, "insert_deduplication_token": token}


def _refused(table: str, failure: InsertFailure) -> InsertRefusedError:
    return InsertRefusedError(
        f"ClickHouse refuses to insert into {table}: {failure.reason}",
        hint="Nothing is lost. Correct the cause and start the sink again; it continues where it stopped.",
    )
