"""A pool of ClickHouse clients, so that one kind of work can't starve another.

clickhouse-connect blocks, so each client has a thread. The clients of a process run at the same time, with chDB too. Calls on one
client wait for each other. So a pool of n clients runs n queries at a time, and further callers wait.
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
    """Threads with one client each. :meth:`Store.client_pool` makes one. Its methods raise clickhouse-connect's errors.

    Args:
        name: For the threads.
        size: Queries at a time.
        connect: Opens a client; called in the pool's threads, with the first work.
        fresh_after_error: Replace a client after an error. chDB 26.9 puts what a failed SELECT had written in front of the
            next answer of the same client.
    """

    def __init__(self, name: str, size: int, connect: Callable[[], Client], *, fresh_after_error: bool = False) -> None:
        self.name = name
        self._connect = connect
        self._fresh_after_error = fresh_after_error
        self._executor = ThreadPoolExecutor(max_workers=size, thread_name_prefix=f"clickhouse-{name}")
        self._local = threading.local()
        self._clients: list[Client] = []
        self._guard = threading.Lock()
        self._closed = False

    async def run(self, work: Callable[[Client], _Result]) -> _Result:
        """Call ``work`` with a client, in one of the pool's threads.

        If the caller is cancelled, it stops waiting, but the thread finishes its work before it is free.

        Raises:
            StoreUnavailableError: The pool is closed.
        """
        if self._closed:
            raise StoreUnavailableError("The connection to ClickHouse is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, work)

    async def query(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> QueryResult:
        """Run a SELECT. ClickHouse fills ``{name:Type}`` with ``parameters``."""
        return await self.run(lambda client: client.query(sql, parameters=_plain(parameters), settings=_dict(settings)))

    async def command(self, sql: str, parameters: Parameters = None, settings: Settings = None) -> Any:
        """Run a statement without a result set, or one that returns a single value."""
        return await self.run(
            lambda client: client.command(sql, parameters=_plain(parameters), settings=_dict(settings))
        )

    async def raw_insert(self, table: str, block: bytes, fmt: str = "JSONEachRow", settings: Settings = None) -> None:
        """Insert bytes that are in the format ``fmt``."""
        await self.run(lambda client: client.raw_insert(table, insert_block=block, fmt=fmt, settings=_dict(settings)))

    def close(self) -> None:
        """Wait for the running work, then close the clients. It blocks, so call it in a thread."""
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
