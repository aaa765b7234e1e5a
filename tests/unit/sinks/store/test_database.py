"""One asynchronous interface to clients of every kind."""

import asyncio
import threading
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from switchgear_sinks.store import Database, database
from tests.support.limits import HAPPEN_S

NAIVE = datetime(1970, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - what a client without time zones gives


def answer(*rows):
    return SimpleNamespace(column_names=("at",), result_rows=rows)


async def test_asynchronous_client_is_awaited_and_times_without_a_zone_are_utc():
    class Client:
        async def query(self, sql, parameters=None):
            await asyncio.sleep(0)
            return answer((NAIVE,), (NAIVE.replace(tzinfo=UTC),), (None,))

    moment = NAIVE.replace(tzinfo=UTC)
    assert await Database(Client()).rows("SELECT") == [{"at": moment}, {"at": moment}, {"at": None}]


async def test_synchronous_client_runs_one_statement_at_a_time_without_blocking_the_loop():
    running, most, go_on = 0, 0, threading.Event()

    class Client:
        def query(self, sql, parameters=None):
            nonlocal running, most
            running += 1
            most = max(most, running)
            go_on.wait(HAPPEN_S)
            time.sleep(0.005)
            running -= 1
            return answer((1,))

    db = Database(Client())
    ticks = asyncio.create_task(asyncio.sleep(0.001))
    statements = [asyncio.create_task(db.rows("SELECT")) for _ in range(4)]
    await ticks
    assert not any(statement.done() for statement in statements), "the loop goes on meanwhile"
    go_on.set()
    await asyncio.gather(*statements)
    assert most == 1


async def test_query_times_out_if_the_client_never_answers(monkeypatch):
    class Client:
        async def query(self, sql, parameters=None):
            await asyncio.sleep(3600)

    monkeypatch.setattr(database, "ANSWER_LIMIT_S", 0.01)
    with pytest.raises(TimeoutError):
        await Database(Client()).rows("SELECT")
