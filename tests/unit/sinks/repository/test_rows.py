"""Between rows and the contract, and between clients of different kinds."""

import asyncio
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.repository.queries import Conditions, microseconds
from switchgear_sinks.repository.tool_metrics import COLUMNS, to_json_line, to_metric
from switchgear_sinks.store import Database, database

NAIVE = datetime(1970, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - what a client without time zones gives


@pytest.mark.parametrize(
    ("stored", "read"),
    [("", {}), ("{}", {}), ('{"a": [1]}', {"a": [1]}), ("not json", {"raw": "not json"}), ("[1]", {"raw": [1]})],
)
def test_metadata_that_is_no_object_is_kept_as_it_is(stored, read):
    assert to_metric({"tool_name": "t", "status": "success", "metadata": stored}).metadata == read


def test_empty_text_is_absent_only_where_absence_exists():
    metric = to_metric(
        {"tool_name": "t", "status": "error", "user_id": "", "session_id": "", "error_class": "", "tenant": ""}
    )
    assert (metric.user_id, metric.tenant) == ("", "")
    assert (metric.session_id, metric.error_class) == (None, None)


def test_columns_that_the_contract_does_not_name_are_left_out():
    metric = to_metric({"tool_name": "t", "status": "success", "kafka_offset": 7})
    assert metric.model_extra == {}
    assert set(COLUMNS) == set(ToolMetric.model_fields)


def test_a_line_is_read_back_as_the_same_metric():
    metric = ToolMetric(tool_name="t", status="error", error_message='\u2028 \\ "', metadata={"a": None})
    assert ToolMetric.model_validate_json(to_json_line(metric)) == metric
    assert b"\n" not in to_json_line(metric)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (NAIVE, 1),
        (datetime(2099, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 4_102_444_799_999_999),
        (datetime(2000, 1, 1, 5, 30, tzinfo=datetime.strptime("+05:30", "%z").tzinfo), 946_684_800_000_000),
    ],
)
def test_microseconds_are_exact(moment, expected):
    assert microseconds(moment) == expected


def test_conditions_bind_every_value():
    where = Conditions("acme").equal("tool_name", "it's").equal("user_id", None).recorded(NAIVE, None)
    assert "it's" not in str(where)
    assert where.parameters == {"tenant": "acme", "tool_name": "it's", "since": 1}
    assert str(where).startswith("WHERE tenant = {tenant:String} AND tool_name = {tool_name:String} AND recorded_at >=")
    assert str(Conditions(None)) == ""


def answer(*rows):
    return SimpleNamespace(column_names=("at",), result_rows=rows)


async def test_an_async_client_is_awaited_and_naive_times_are_utc():
    class Client:
        async def query(self, sql, parameters=None):
            await asyncio.sleep(0)
            return answer((NAIVE,), (NAIVE.replace(tzinfo=UTC),), (None,))

    moment = NAIVE.replace(tzinfo=UTC)
    assert await Database(Client()).rows("SELECT") == [{"at": moment}, {"at": moment}, {"at": None}]


async def test_a_sync_client_does_one_statement_at_a_time_and_blocks_nobody():
    running, most = 0, 0

    class Client:
        def query(self, sql, parameters=None):
            nonlocal running, most
            running += 1
            most = max(most, running)
            time.sleep(0.1)
            running -= 1
            return answer((1,))

    db = Database(Client())
    ticks = asyncio.create_task(asyncio.sleep(0.001))
    statements = [asyncio.create_task(db.rows("SELECT")) for _ in range(4)]
    await ticks
    assert not any(statement.done() for statement in statements), "the loop goes on meanwhile"
    await asyncio.gather(*statements)
    assert most == 1


async def test_a_client_that_never_answers_is_given_up(monkeypatch):
    class Client:
        async def query(self, sql, parameters=None):
            await asyncio.sleep(3600)

    monkeypatch.setattr(database, "ANSWER_LIMIT_S", 0.01)
    with pytest.raises(TimeoutError):
        await Database(Client()).rows("SELECT")
