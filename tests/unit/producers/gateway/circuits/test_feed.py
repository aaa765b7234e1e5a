"""Records go from the follower's thread to the server's loop: none is lost, and what waits has a bound."""

from __future__ import annotations

import asyncio
import threading

import pytest

from switchgear_gateway.circuits.feed import CircuitFeed
from tests.support.limits import HAPPEN_S
from tests.unit.producers.gateway.circuits.test_changes import record


@pytest.mark.slow
async def test_the_last_record_of_every_circuit_arrives_while_another_thread_adds_them() -> None:
    feed = CircuitFeed()

    def follow() -> None:
        for offset in range(20_000):
            feed.changed(record(f"t{offset % 50}", offset, offset + 1))
        feed.loaded()

    thread = threading.Thread(target=follow)
    thread.start()
    last: dict[bytes | None, int] = {}
    order: list[int] = []
    loaded, most = False, 0
    async with asyncio.timeout(HAPPEN_S):
        while not loaded:
            await feed.wait()
            _, records, loaded = feed.take()
            most = max(most, len(records))
            order += [each.offset for each in records]
            last |= {each.key: each.offset for each in records}
    thread.join()
    assert last == {f"t{number}".encode(): 19_950 + number for number in range(50)}
    assert order == sorted(order)
    assert most <= 50


async def test_a_restart_drops_what_came_before_it() -> None:
    feed = CircuitFeed()
    feed.changed(record("old", 5))
    feed.loaded()
    feed.restarted()
    feed.changed(record("new", 0))
    restarted, records, loaded = feed.take()
    assert (restarted, [each.key for each in records], loaded) == (True, [b"new"], False)
    assert feed.take() == (False, [], False)
