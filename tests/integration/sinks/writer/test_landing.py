"""From the topics into the tables, through a real broker and the real engine."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from switchgear_schemas import headers
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import open_store
from switchgear_sinks.writer import WriterLimits
from tests.support.engine import copy_migrated
from tests.support.groups import rewind
from tests.support.records import execution
from tests.support.sinking import Message, Sinking, assert_exact, dead_letters, produce, sinking


@pytest.fixture
def here(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    copy_migrated(tmp_path / "clickhouse")
    return make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")


def mixed(count: int) -> list[Message]:
    """Calls of a dozen tools with every status and all kinds of durations."""
    chance = random.Random(7)
    found = []
    for _ in range(count):
        tool = f"tool-{chance.randrange(12)}"
        status = chance.choice(["success", "success", "success", "error", "timeout", "cancelled", "rejected"])
        value = execution(
            tool, status=status, execution_time_ms=chance.lognormvariate(4, 2), input_size=chance.randrange(5_000)
        )
        found.append(Message(value, tool.encode()))
    return found


async def test_every_event_is_a_row_and_the_rollups_agree(here: Settings) -> None:
    sent = await produce(here, mixed(5_000))
    async with sinking(here) as sink:
        await sink.until_count(5_000)
        await assert_exact(sink.store, 5_000)
        stored = await sink.rows("SELECT kafka_partition, kafka_offset FROM tool_metrics")
        assert sorted(map(tuple, stored)) == sorted(sent)
        await sink.until_committed(here)
    assert await dead_letters(here) == {}


async def test_a_writer_that_starts_again_stores_nothing_twice(here: Settings) -> None:
    await produce(here, mixed(1_000))
    async with sinking(here) as sink:
        await sink.until_count(1_000)
        await sink.until_committed(here)
    await produce(here, mixed(1_000))
    async with sinking(here) as sink:
        await sink.until_count(2_000)
        await assert_exact(sink.store, 2_000)
        assert sink.metric("switchgear_sink_rows_total", table="tool_metrics") == 1_000


async def test_an_event_of_a_foreign_client_gets_its_id_and_time_from_kafka(here: Settings) -> None:
    await produce(here, [Message(b'{"tool_name":"x","status":"error"}', b"x")] * 3)
    async with sinking(here) as sink:
        await sink.until_count(3)
        rows = await sink.rows(
            "SELECT metric_id, recorded_at = kafka_timestamp, abs(dateDiff('second', kafka_timestamp, now())) < 60, "
            "tool_name, status, session_id, metadata, kafka_offset FROM tool_metrics ORDER BY kafka_offset"
        )
        assert [tuple(row[1:]) for row in rows] == [(1, 1, "x", "error", "", "", place) for place in range(3)]
        ids = [row[0] for row in rows]
        assert len(set(ids)) == 3
        assert {each.version for each in ids} == {7}


async def test_every_form_of_a_field_is_stored_as_its_value(here: Settings) -> None:
    at = "2026-11-21T10:00:00.123456+02:00"
    values = [
        execution("nulls", metric_id=None, recorded_at=None).replace(b"}", b',"user_id":null,"session_id":null,"generation":null,"input_size":null}'),
        execution("numbers", execution_time_ms=12, cost_usd=0, input_size=2**40, generation=0),
        execution("zone", recorded_at=at),
        execution("nested", metadata={"a": [1, {"b": "größe"}], "n": None}),
        execution("unknown", weather={"wind": 3}, kafka_offset=99),
        b' \n{"tool_name":"spaces","status":"success"}\n ',
        b'{"tool_name":"twice","tool_name":"twice","status":"error","status":"success","input_size":1,"input_size":2}',
        execution("unicode-größe-工具", error_message="naïve 💥"),
        execution("naive", recorded_at="2026-11-21T08:00:00"),
    ]  # fmt: skip
    await produce(here, [Message(value, b"k") for value in values])
    async with sinking(here) as sink:
        await sink.until_count(len(values))
        columns = "tool_name, session_id, generation, input_size, execution_time_ms, toString(recorded_at), metadata, unknown_fields, error_message"
        rows = {row[0]: row for row in await sink.rows(f"SELECT {columns} FROM tool_metrics")}
        assert tuple(rows["nulls"][1:4]) == ("", None, 0)
        assert tuple(rows["numbers"][2:5]) == (0, 2**40, 12.0)
        assert rows["zone"][5] == "2026-11-21 08:00:00.123456"
        assert json.loads(rows["nested"][6]) == {"a": [1, {"b": "größe"}], "n": None}
        assert json.loads(rows["unknown"][7]) == {"weather": {"wind": 3}, "kafka_offset": 99}
        assert rows["twice"][3] == 2, "the last one counts, as for the worker"
        assert rows["unicode-größe-工具"][8] == "naïve 💥"
        assert rows["naive"][5] == "2026-11-21 08:00:00.000000"
        assert len(rows) == len(values)
    assert await dead_letters(here) == {}


MALFORMED = [
    (None, ""),
    (b"", ""),
    (b"not json", ""),
    (b"[1]", ""),
    (b"{", ""),
    (b'{"tool_name":"x","status":"error"}{"tool_name":"y","status":"error"}', ""),
    (b'{"status":"error"}', "tool_name"),
    (b'{"tool_name":"x"}', "status"),
    (b'{"tool_name":"","status":"error"}', "tool_name"),
    (b'{"tool_name":"x","status":"odd"}', "status"),
    (b'{"tool_name":["x"],"status":"error"}', "tool_name"),
    (b'{"tool_name":"x","status":"error","metric_id":"zz"}', "metric_id"),
    (b'{"tool_name":"x","status":"error","execution_time_ms":"slow"}', "execution_time_ms"),
    (b'{"tool_name":"x","status":"error","recorded_at":"1970-01-01T00:00:00Z"}', "recorded_at"),
    (b'{"tool_name":"x","status":"error","recorded_at":"2200-01-01T00:00:00Z"}', "recorded_at"),
    (b'{"tool_name":"x","status":"error","error_message":"' + b"a" * 2_000_000 + b'"}', ""),
    (b"\x00\xff\xfe", ""),
]


async def test_each_malformed_message_is_a_dead_letter_and_each_good_one_a_row(here: Settings) -> None:
    messages = []
    for value, _ in MALFORMED:
        messages += [Message(execution(), b"a"), Message(value, b"a"), Message(execution(), b"a")]
    sent = await produce(here, [*messages, Message(execution(), key=None)])
    async with sinking(here) as sink:
        await sink.until_count(2 * len(MALFORMED) + 1)
        await sink.until_committed(here)
        await assert_exact(sink.store, 2 * len(MALFORMED) + 1)
    letters = await dead_letters(here)
    assert set(letters) == {sent[1 + 3 * place] for place in range(len(MALFORMED))}
    for place, (value, field) in enumerate(MALFORMED):
        letter = letters[sent[1 + 3 * place]]
        assert (letter.value, letter.field) == (value, field)
        assert letter.reason
        assert (letter.component, letter.original_key, letter.topic) == ("sink", b"a", here.topics.executions)


async def test_a_copy_that_the_worker_sent_on_is_not_stored(here: Settings) -> None:
    value = execution()
    await produce(here, [Message(value), Message(value, headers=[(headers.REKEYED, b"1:7")]), Message(execution())])
    async with sinking(here) as sink:
        await sink.until_count(2)
        await sink.until_committed(here)
        await assert_exact(sink.store, 2)
        assert sink.metric("switchgear_sink_skipped_total", why="rekeyed") == 1


async def test_an_event_that_is_sent_again_is_stored_once(here: Settings) -> None:
    resent = [(headers.RESENT, b"1")]
    first, second, third = execution(), execution(), execution()
    await produce(here, [Message(first)])
    async with sinking(here) as sink:
        await sink.until_count(1)
        await produce(
            here,
            [
                Message(first, headers=resent),  # stored before
                Message(second),
                Message(second, headers=resent),  # in the same batch
                Message(third, headers=resent),  # never seen: its first sending failed
                Message(third, headers=resent),
                Message(
                    b'{"tool_name":"x","status":"error"}', headers=resent
                ),  # without an id there is nothing to look up
            ],
        )
        await sink.until_committed(here)
        await assert_exact(sink.store, 4)
        assert sink.metric("switchgear_sink_skipped_total", why="resent") == 3
        await produce(here, [Message(third)])  # its first sending did arrive, after the second
        await sink.until_committed(here)
        await assert_exact(sink.store, 4)


@pytest.mark.deep
async def test_same_bytes_without_the_resent_header_are_two_events(here: Settings) -> None:
    await produce(here, [Message(b'{"tool_name":"x","status":"error"}')] * 2)
    async with sinking(here) as sink:
        await sink.until_count(2)
        await assert_exact(sink.store, 2)


@pytest.mark.deep
async def test_batches_that_look_alike_to_the_rollups_all_count(here: Settings) -> None:
    """Their rollup blocks are equal byte for byte. Only the token differs."""
    async with sinking(here, limits=WriterLimits(batch_rows=1, batch_age_s=0.01)) as sink:
        await produce(here, [Message(execution(recorded_at="2026-11-21T10:00:00Z"), partition=0) for _ in range(30)])
        await sink.until_count(30)
        assert sink.metric("switchgear_sink_batches_total", table="tool_metrics") == 30
        await assert_exact(sink.store, 30)


@pytest.mark.deep
async def test_calls_of_many_years_may_come_in_one_batch(here: Settings) -> None:
    values = [
        execution(recorded_at=f"{2000 + year}-{month:02}-01T00:00:00Z")
        for year in range(0, 100, 4)
        for month in (1, 7, 9, 11, 12)
    ]
    await produce(here, [Message(value) for value in values])
    async with sinking(here) as sink:
        await sink.until_count(len(values))
        await assert_exact(sink.store, len(values))


def circuit(version: int, **fields: object) -> bytes:
    given = {
        "circuit_id": "search",
        "tool_name": "search",
        "state": "open",
        "previous_state": "closed",
        "version": version,
        "generation": version,
        "cause": Cause(rule="cusum", value=12.5, threshold=12.0),
        "changed_at": datetime.now(UTC),
    }
    return Circuit.from_dict(given | fields).to_bytes()


async def test_circuit_records_become_history_and_tombstones_do_not(here: Settings) -> None:
    await produce(
        here,
        [Message(circuit(1)), Message(None), Message(b"junk"), Message(circuit(2, state="closed", cause=None))],
        topic=here.topics.circuits,
    )
    async with sinking(here) as sink:
        await sink.until_count(2, "circuit_transitions")
        rows = await sink.rows("SELECT version, state, rule, kafka_offset FROM circuit_transitions ORDER BY version")
        assert list(map(tuple, rows)) == [(1, "open", "cusum", 0), (2, "closed", "", 3)]
        await sink.until_committed(here)
    (letter,) = (await dead_letters(here)).values()
    assert (letter.topic, letter.offset, letter.value) == (here.topics.circuits, 2, b"junk")


async def poison(here: Settings, sink: Sinking, values: list[bytes]) -> None:
    """ClickHouse alone refuses these: the table is made stricter than the contract."""
    await sink.store.command("ALTER TABLE tool_metrics ADD CONSTRAINT no_poison CHECK user_id != 'poison'")
    await produce(here, [Message(value) for value in values])


@pytest.mark.deep
@pytest.mark.parametrize("every", [100, 1_000])
async def test_rows_that_only_clickhouse_refuses_become_dead_letters(here: Settings, every: int) -> None:
    values = [execution(user_id="poison" if place % every == 0 else "u") for place in range(4_000)]
    bad = len(range(0, 4_000, every))
    async with sinking(here) as sink:
        await poison(here, sink, values)
        await sink.until_committed(here)
        await assert_exact(sink.store, 4_000 - bad)
    letters = (await dead_letters(here)).values()
    assert len(letters) == bad
    assert all("no_poison" in letter.reason and json.loads(letter.body)["user_id"] == "poison" for letter in letters)


@pytest.mark.deep
async def test_fields_named_twice_are_repaired_together_and_stored(here: Settings) -> None:
    """ClickHouse alone refuses them; the last one counts, as for the worker."""
    values = [execution(user_id=str(place)) for place in range(4_000)]
    for place in range(0, 4_000, 40):
        values[place] = values[place].replace(b"{", b'{"user_id":"first",', 1)
    async with sinking(here) as sink:
        await produce(here, [Message(value) for value in values])
        await sink.until_committed(here)
        await assert_exact(sink.store, 4_000)
        assert await sink.scalar("SELECT uniqExact(user_id) FROM tool_metrics") == 4_000
    assert await dead_letters(here) == {}


@pytest.mark.deep
async def test_every_kind_of_invalid_row_in_one_batch_gets_its_own_reason(here: Settings) -> None:
    def spoil(place: int) -> bytes:
        if place % 100 == 0:
            return b"junk"
        if place % 100 == 1:
            return execution(user_id="poison")
        if place % 100 == 2:
            return execution().replace(b"{", b'{"status":"timeout",', 1)
        return execution(weather=1) if place % 100 == 3 else execution()

    async with sinking(here) as sink:
        await poison(here, sink, [spoil(place) for place in range(3_000)])
        await sink.until_committed(here)
        await assert_exact(sink.store, 3_000 - 60)
    reasons = [letter.reason for letter in (await dead_letters(here)).values()]
    assert len(reasons) == 60
    assert sum("no_poison" in reason for reason in reasons) == 30


async def insert_into_a_table_that_is_gone(here: Settings) -> None:
    async with sinking(here) as sink:
        await sink.store.command("RENAME TABLE tool_metrics TO elsewhere")
        await produce(here, mixed(100))
        await sink.task


async def test_an_insert_that_can_never_work_stops_the_writer_and_loses_nothing(here: Settings) -> None:
    async with sinking(here) as sink:
        await produce(here, mixed(100))
        await sink.until_count(100)
    with pytest.raises(SwitchgearError, match=r"ClickHouse refuses to insert into tool_metrics: .*Nothing is lost"):
        await insert_into_a_table_that_is_gone(here)
    async with await open_store(here) as store:
        await store.command("RENAME TABLE elsewhere TO tool_metrics")
    async with sinking(here) as sink:
        await sink.until_count(200)
        await assert_exact(sink.store, 200)


@pytest.mark.deep
async def test_ids_that_were_minted_are_the_same_after_a_replay(here: Settings) -> None:
    await produce(here, [Message(b'{"tool_name":"x","status":"error"}')] * 50)
    async with sinking(here) as sink:
        await sink.until_count(50)
        before = await sink.rows("SELECT kafka_offset, metric_id FROM tool_metrics ORDER BY kafka_offset")
    again = here.model_copy(update={"clickhouse_url": f"{here.clickhouse_url}-again"})
    await rewind(here)
    async with sinking(again) as sink:
        await sink.until_count(50)
        assert await sink.rows("SELECT kafka_offset, metric_id FROM tool_metrics ORDER BY kafka_offset") == before
        assert all(isinstance(row[1], uuid.UUID) for row in before)
