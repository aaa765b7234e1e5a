"""When a store lacks what sinks have read, and when it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.structs import TopicPartition

from switchgear_sinks.store import Store
from switchgear_sinks.writer.history import StoreHistory
from switchgear_sinks.writer.intents import Committed, Intent, Range

pytestmark = pytest.mark.slow
ONE, TWO = TopicPartition("executions", 0), TopicPartition("executions", 1)
NEW = {ONE: 0, TWO: 0}


@pytest.fixture
def history(store: Store) -> Callable[[], StoreHistory]:
    """`history()`: what a sink that starts now knows of the store."""
    return lambda: StoreHistory(store, "sink")


async def test_a_store_whose_group_has_read_nothing_lacks_nothing(history: Callable[[], StoreHistory]) -> None:
    first = history()
    await first.begin({}, NEW)
    assert (first.readable(), first.lacks_before(ONE)) == ({}, 0)


async def test_a_new_store_lacks_what_the_group_has_read_and_kafka_still_has(
    history: Callable[[], StoreHistory],
) -> None:
    first = history()
    await first.begin({ONE: Committed(50, Intent((Range(1, 50, 59, 1),))), TWO: Committed(7)}, {ONE: 20, TWO: 7})
    assert first.readable() == {"executions": 30}
    assert (first.lacks_before(ONE), first.lacks_before(TWO)) == (50, 0)


async def test_a_store_lacks_the_same_at_the_next_start_however_far_the_group_has_read_by_then(
    history: Callable[[], StoreHistory],
) -> None:
    await history().begin({ONE: Committed(50)}, NEW)
    later = history()
    await later.begin({ONE: Committed(900), TWO: Committed(80)}, {ONE: 10, TWO: 0})
    assert (later.lacks_before(ONE), later.lacks_before(TWO)) == (50, 0)
    assert later.readable() == {"executions": 40}


async def test_a_store_to_which_the_group_writes_from_its_beginning_lacks_nothing_later(
    history: Callable[[], StoreHistory],
) -> None:
    await history().begin({}, NEW)
    later = history()
    await later.begin({ONE: Committed(900)}, NEW)
    assert later.readable() == {}


async def test_a_store_with_rows_of_an_older_release_lacks_nothing(
    store: Store, history: Callable[[], StoreHistory]
) -> None:
    await store.raw_insert("tool_metrics", b'{"tool_name":"search","status":"success"}')
    first = history()
    await first.begin({ONE: Committed(50)}, NEW)
    assert first.readable() == {}


async def test_what_is_complete_is_so_for_good(history: Callable[[], StoreHistory]) -> None:
    first = history()
    await first.begin({ONE: Committed(50), TWO: Committed(60)}, NEW)
    await first.complete([ONE])
    assert (first.lacks_before(ONE), first.lacks_before(TWO)) == (0, 60)
    assert first.readable() == {"executions": 60}
    later = history()
    await later.begin({ONE: Committed(50), TWO: Committed(60)}, NEW)
    assert (later.lacks_before(ONE), later.lacks_before(TWO)) == (0, 60)


async def test_what_another_sink_has_completed_is_not_lacking_any_more(history: Callable[[], StoreHistory]) -> None:
    one, other = history(), history()
    for each in (one, other):
        await each.begin({ONE: Committed(50)}, NEW)
    await other.complete([ONE])
    assert one.lacks_before(ONE) == 50
    await one.read()
    assert (one.lacks_before(ONE), one.readable()) == (0, {})


async def test_the_history_of_another_group_says_nothing(store: Store, history: Callable[[], StoreHistory]) -> None:
    await StoreHistory(store, "other").begin({}, NEW)
    mine = history()
    await mine.begin({ONE: Committed(50)}, NEW)
    assert mine.readable() == {"executions": 50}
