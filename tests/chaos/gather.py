"""Collecting the evidence with plain consumers, ``json``, and SQL over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from switchgear_schemas.unreadable import guard
from tests.chaos.evidence import GARBAGE, CircuitRecord, Event, Evidence, Place, Row, Stored
from tests.support.sinking import ROLLUPS_DIFFER

READ_S = 180.0
JUNK_KEY = re.compile(rb"junk-[0-9a-f]{32}")
MAX_EVENT_BYTES = 1 << 20
STATUSES = {"success", "error", "timeout", "cancelled", "rejected", "overdue"}


async def gather(evidence: Evidence, *, bootstrap: str, prefix: str, clickhouse: str, database: str) -> None:
    """Add the records of all topics and the rows of ClickHouse to ``evidence``."""
    executions = f"{prefix}executions"
    async with asyncio.timeout(READ_S):
        found = [event_of(record) for record in await read(bootstrap, executions)]
        evidence.events = [event for event in found if event.status != "overdue"]  # reports, which are never stored
        circuits, commands = await read(bootstrap, f"{prefix}circuits"), await read(bootstrap, f"{prefix}commands")
        evidence.circuits = [circuit_of(each) for each in circuits if each.value and not is_garbage(each)]
        evidence.garbage = {place_in(each) for each in (*circuits, *commands) if is_garbage(each)}
        origins = {origin_of(each) for each in await read(bootstrap, f"{executions}.dead") if not is_garbage(each)}
        evidence.dead = {(partition, offset) for topic, partition, offset in origins if topic == executions}
        evidence.buried = {origin for origin in origins if origin[0] != executions}
        changelog = await read(bootstrap, f"{prefix}worker-circuits-changelog")
        evidence.rows = newest_rows([each for each in changelog if not is_garbage(each)])
    ask = Sql(clickhouse, database)
    evidence.stored = [
        Stored(key, metric_id, (int(partition), int(offset)))
        for key, metric_id, partition, offset in ask.rows(
            "SELECT request_id, metric_id, kafka_partition, kafka_offset FROM tool_metrics"
        )
    ]
    evidence.transitions = [
        (circuit, int(version), state)
        for circuit, version, state in ask.rows("SELECT circuit_id, version, state FROM circuit_transitions")
    ]
    evidence.rollups_differ = {what: int(number) for what, number in ask.rows(ROLLUPS_DIFFER)}


async def read(bootstrap: str, topic: str) -> list[ConsumerRecord[Any, Any]]:
    """Return every record of a topic up to its present end, partition by partition."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    await consumer.start()
    guard(consumer)  # aiokafka raises on batches that the faults write
    try:
        await consumer._client.force_metadata_update()
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        found: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {place: [] for place in places}
        while any([await consumer.position(place) < ends[place] for place in places]):
            for place, records in (await consumer.getmany(timeout_ms=500)).items():
                found[place].extend(records)
        return [record for place in places for record in found[place]]
    finally:
        await consumer.stop()


def event_of(record: ConsumerRecord[Any, Any]) -> Event:
    """Return a record of the executions topic, also if it isn't a valid execution."""
    headers = dict(record.headers)
    origin = headers.get("switchgear.rekeyed")
    place: Place = (record.partition, record.offset)
    try:
        given = json.loads(record.value)
        fits = len(record.value) <= MAX_EVENT_BYTES
        valid = fits and isinstance(given.get("tool_name"), str) and given.get("status") in STATUSES
    except (ValueError, TypeError, AttributeError):
        given, valid = {}, False
    if not valid:
        found = JUNK_KEY.search(record.value or b"")
        given = {"request_id": found[0].decode() if found else ""}
    recorded = given.get("recorded_at")
    return Event(
        place,
        record.timestamp / 1000,
        given.get("request_id") or given.get("metric_id") or "",
        given.get("metric_id") or "",
        given.get("tool_name") or "",
        given.get("status") or "",
        given.get("error_class"),
        None if recorded is None else instant(recorded),
        given.get("emitter_id") or "",
        given.get("generation"),
        given.get("lease_id"),
        "switchgear.resent" in headers,
        None if origin is None else place_of(origin),
        given.get("family_generation"),
        given.get("family_lease_id"),
    )


def instant(text: str) -> float:
    """Return RFC 3339 as seconds since 1970. Without an offset it is UTC."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def place_of(text: bytes) -> Place:
    """Return the place in the header of a copy."""
    partition, _, offset = text.decode().partition(":")
    return int(partition), int(offset)


def circuit_of(record: ConsumerRecord[Any, Any]) -> CircuitRecord:
    """Return a record of the circuits topic."""
    given = json.loads(record.value)
    cause = given.get("cause") or {}
    return CircuitRecord(
        given["circuit_id"],
        given["version"],
        given["generation"],
        given["state"],
        cause.get("rule", ""),
        record.timestamp / 1000,
        instant(given["changed_at"]),
        tuple((lease["lease_id"], lease["emitter_id"]) for lease in given.get("leases") or ()),
        record.value,
        record.partition,
        given.get("previous_state"),
        cause.get("tools"),
    )


def is_garbage(record: ConsumerRecord[Any, Any]) -> bool:
    """Return whether a fault wrote the record."""
    return any(name == GARBAGE for name, _ in record.headers)


def place_in(record: ConsumerRecord[Any, Any]) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def origin_of(record: ConsumerRecord[Any, Any]) -> tuple[str, int, int]:
    """Return the topic, partition and offset of a dead letter's origin."""
    name, partition, offset = record.key.decode().rsplit("-", 2)
    return name, int(partition), int(offset)


def newest_rows(records: list[ConsumerRecord[Any, Any]]) -> dict[str, Row]:
    """Return the row of each circuit with the highest counter."""
    newest: dict[bytes, bytes] = {}
    for record in records:
        if record.key.startswith(b"\xff"):
            continue  # not a circuit, but policies that operators set by glob
        if record.value is None:
            newest.pop(record.key, None)
        elif record.key not in newest or record.value[1:9] >= newest[record.key][1:9]:
            newest[record.key] = record.value
    return {row.circuit: row for row in map(row_of, newest.values())}


def row_of(value: bytes) -> Row:
    place = msgspec.msgpack.decode(memoryview(value)[9:], strict=False)
    return Row(place[0], place[8], place[9], place[10], place[11], place[12], place[17])


class Sql:
    """ClickHouse by plain HTTP."""

    def __init__(self, url: str, database: str) -> None:
        self._url = f"{url}/?database={quote(database)}"

    def rows(self, statement: str) -> Iterator[list[str]]:
        """Yield the rows of a query, with all values as text."""
        with urlopen(Request(self._url, data=statement.encode()), timeout=READ_S) as answer:
            for line in answer:
                yield line.decode().rstrip("\n").split("\t")
