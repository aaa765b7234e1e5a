"""What asks one reader's process, in the shape of a clickhouse-connect client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

from clickhouse_connect.driver.binding import bind_query
from clickhouse_connect.driver.exceptions import DatabaseError

from switchgear_sinks.sandbox.process import ReaderProcess

_ERROR_BYTES: Final = 16_384
_OF_A_SERVER: Final = frozenset({"wait_end_of_query"})


class ReaderClient:
    """One reader's client: all that it asks has one deadline. Made by :meth:`Readers.connect`; blocks; close it."""

    def __init__(self, process: ReaderProcess, deadline: float, release: Callable[[ReaderProcess], None]) -> None:
        self._process = process
        self._deadline = deadline
        self._release = release

    @property
    def pid(self) -> int:
        """Of the process behind it."""
        return self._process.pid

    def raw_query(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        fmt: str | None = None,
    ) -> bytes:
        """Answer in ``fmt``. ``parameters`` fill ``{name:Type}``; ``settings`` stay for what is asked after it.

        Raises:
            ClickHouseError: the engine refuses, with its text.
            ReaderLimitError: the time is over, or the query takes more than it may; the client is of no more use.
            ReaderEndedError: the query brought the engine down.
        """
        text, bound = bind_query(query, dict(parameters or {}), UTC)
        ok, answer = self._process.ask(
            {
                "query": text,
                "format": fmt or "TabSeparated",
                "parameters": {name.removeprefix("param_"): value for name, value in bound.items()},
                "settings": {name: value for name, value in (settings or {}).items() if name not in _OF_A_SERVER},
            },
            self._deadline,
        )
        if not ok:
            raise DatabaseError(answer[:_ERROR_BYTES].decode("utf-8", "replace"))
        return answer

    def command(self, cmd: str) -> object:
        """Run a statement; the errors of :meth:`raw_query`."""
        return self.raw_query(cmd)

    def close(self) -> None:
        """End the process."""
        self._release(self._process)
