"""The follower has every circuit, soon after it changed, whatever comes and goes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from switchgear import CircuitFollower
from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from tests.integration.producers.circuits import circuit, publish
from tests.support.kafka import own_kafka
from tests.support.limits import HAPPEN_S
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw
from tests.support.waiting import auntil


@pytest.fixture
def follower(settings):
    made = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    yield made
    assert made.close(10)


async def test_the_follower_loads_existing_circuits_and_follows_new_records(settings, follower):
    await publish(
        settings, *(circuit(f"tool-{number}", "closed", 1) for number in range(50)), circuit("tool-7", "open", 2)
    )
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    assert len(follower.table.views) == 50
    assert follower.table.views["tool-7"].state == "open"
    assert follower.table.views["tool-7"].open_until > time.time() + 30
    await publish(settings, circuit("tool-7", "closed", 3), circuit("new", "open", 1))
    await auntil(lambda: "new" in follower.table.views, HAPPEN_S)
    assert follower.table.views["tool-7"].state == "closed"
    status = follower.status()
    assert (status.loaded, status.connected, status.circuits, status.lag, status.malformed) == (True, True, 51, 0, 0)
    assert status.age_s < 5


async def test_an_empty_topic_is_loaded_at_once(follower):
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    assert follower.table.views == {}


async def test_a_change_is_there_within_milliseconds(settings, follower):
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    arrived: list[float] = []
    follower.listeners.append(lambda _view: arrived.append(time.time()))
    await publish(settings, *(circuit("t", "open", version) for version in range(1, 21)))
    await auntil(lambda: len(arrived) == 20, HAPPEN_S)
    sent = follower.table.views["t"].changed_at
    assert arrived[-1] - sent < 2.0


async def test_malformed_and_outdated_records_and_tombstones_change_what_they_should(settings, follower):
    await publish(
        settings,
        circuit("a", "open", 5),
        ("a", b"not a circuit"),
        ("a", b'{"circuit_id":"a"}'),
        circuit("a", "closed", 4),
        circuit("b", "open", 1),
        ("b", None),
        circuit("z", "closed", 1),
    )
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    assert {name: view.state for name, view in follower.table.views.items()} == {"a": "open", "z": "closed"}
    assert (follower.table.malformed, follower.status().malformed) == (2, 2)


async def test_unreadable_records_are_counted_and_logged_in_one_line(settings, follower, caplog):
    await publish(settings, circuit("a", "open", 5), *(("a", b"garbage %d" % number) for number in range(500)))
    odd = payload([RawRecord(b"{}", b"a", [(b"\xff", b"")]), RawRecord(b"{}", b"a")])
    bomb = compressed(payload([RawRecord(bytes(200 << 20), b"a")]), "zstd")
    topic = settings.topics.circuits
    for partition in range(settings.topic_partitions):
        await produce_raw(settings, topic, partition, [batch(odd, 2), batch(bomb, 1, "zstd")])
    await publish(settings, circuit("a", "closed", 6))
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    assert follower.table.views["a"].state == "closed"
    assert follower.status().malformed == 500 + 3 * settings.topic_partitions
    assert 1 <= sum("are skipped, the last one" in line for line in caplog.messages) <= 3


async def test_a_listener_is_called_for_changes_only(settings, follower):
    heard = []
    follower.listeners.append(lambda view: heard.append((view.circuit_id, view.version)))
    await publish(
        settings, circuit("a", "open", 2), circuit("a", "closed", 1), circuit("a", "open", 2), circuit("a", "closed", 3)
    )
    follower.start()
    await auntil(lambda: follower.loaded, HAPPEN_S)
    assert heard == [("a", 2), ("a", 3)]


@pytest.mark.deep
def test_a_broker_that_comes_later_goes_away_and_loses_its_data_is_followed_all_along(tmp_path: Path):
    port = any_free_port()
    settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="later.", topic_partitions=4)
    follower = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    follower.start()
    try:
        time.sleep(0.5)
        assert not follower.loaded
        assert follower.status().last_error
        with own_kafka(tmp_path / "first", port):
            asyncio.run(ensure_topics(settings))
            asyncio.run(
                publish(
                    settings, *(circuit("a", "open", version) for version in range(1, 6)), circuit("gone", "open", 9)
                )
            )
            assert follower.wait_loaded(HAPPEN_S)
            asyncio.run(auntil(lambda: len(follower.table.views) == 2, HAPPEN_S))
        time.sleep(0.5)
        assert follower.table.views["a"].version == 5, "the last known state stays"
        with own_kafka(tmp_path / "first", port):
            asyncio.run(publish(settings, circuit("a", "closed", 6)))
            asyncio.run(auntil(lambda: follower.table.views["a"].version == 6, HAPPEN_S))
        with LocalKafka(tmp_path / "second", port):  # another cluster
            asyncio.run(ensure_topics(settings))
            asyncio.run(publish(settings, circuit("a", "closed", 1)))
            asyncio.run(auntil(lambda: (a := follower.table.views.get("a")) is not None and a.version == 1, HAPPEN_S))
            assert set(follower.table.views) == {"a"}
    finally:
        assert follower.close(10)
