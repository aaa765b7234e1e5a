"""A lane: a few threads, each with its own ClickHouse client, so that one kind of work cannot starve another.

clickhouse-connect blocks, hence threads. Measured with chDB 26.9: clients of one process run at the same time
(two ``sleep(1)`` take 1.0 s together), calls of two threads on one client wait for each other. A lane of n threads is
therefore a limit of n queries at a time; further callers wait their turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.query import QueryResult

from switchgear_schemas.errors import StoreUnavailableError

Parameters = Mapping[str, Any] | Sequence[Any] | None
Settings = Mapping[str, Any] | None
_Result = TypeVar("_Result")


class ClientPool:
    """``size`` threads with one client each. Made by :meth:`Store.lane`; errors are clickhouse-connect's own."""

    def __init__(self, name: str, size: int, connect: Callable[[], Client], *, fresh_after_error: bool = False) -> None:
        """Make the lane; threads and clients come with the first work.

        Args:
            name: For the threads.
            size: Queries at a time.
            connect: Opens a client; called in the lane's threads.
            fresh_after_error: Use a client no more once it has failed. chDB 26.9 puts what a SELECT had written before it
                failed in front of the same client's next answer (measured).
        """
        self.name = name
        self._connect = connect
        self._fresh_after_error = fresh_after_error
        self._executor = ThreadPoolExecutor(max_workers=size, thread_name_prefix=f"clickhouse-{name}")
        self._local = threading.local()
        self._clients: list[Client] = []
        self._guard = threading.Lock()
        self._closed = False

    async def run(self, work: Callable[[Client], _Result]) -> _Result:
        """Call ``work`` with a client, in one of the lane's threads.

        A cancelled caller stops waiting; the thread finishes what it does and is free then.

        Raises:
            StoreUnavailableError: the lane is closed.
        """
        if self._closed:
            raise StoreUnavailableError("The connection to ClickHouse is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, work)

    async def query(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> QueryResult:
        """Run a SELECT; ``parameters`` fill ``{name:Type}`` in it, on the server."""
        return await self.run(lambda client: client.query(sql, parameters=_plain(parameters), settings=_dict(settings)))

    async def raw_query(
        self, sql: str, parameters: Parameters = None, settings: Settings = None, fmt: str | None = None
    ) -> bytes:
        """Run a SELECT and return the bytes of the format ``fmt`` (or of the one in the SQL)."""
        return await self.run(
            lambda client: client.raw_query(sql, parameters=_plain(parameters), settings=_dict(settings), fmt=fmt)
        )

    async def command(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> Any:
        """Run a statement without a result set, or one that returns a single value."""
        return await self.run(
            lambda client: client.command(sql, parameters=_plain(parameters), settings=_dict(settings))
        )

    async def raw_insert(self, table: str, block: bytes, fmt: str = "JSONEachRow", settings: Settings = None) -> None:
        """Insert bytes of the format ``fmt`` as they are."""
        await self.run(lambda client: client.raw_insert(table, insert_block=block, fmt=fmt, settings=_dict(settings)))

    def close(self) -> None:
        """Wait for what runs, then close the clients. Blocks: call it in a thread."""
        self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)
        for client in self._clients:
            client.close()

    def _work(self, work: Callable[[Client], _Result]) -> _Result:
        client: Client | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = self._connect()
            with self._guard:
                self._clients.append(client)
        try:
            return work(client)
        except ClickHouseError:
            if self._fresh_after_error:
                self._local.client = None
                with self._guard:
                    self._clients.remove(client)
                client.close()
            raise


def _dict(values: Settings) -> dict[str, Any] | None:
    return None if values is None else dict(values)


def _plain(values: Parameters) -> dict[str, Any] | Sequence[Any] | None:
    return dict(values) if isinstance(values, Mapping) else values
