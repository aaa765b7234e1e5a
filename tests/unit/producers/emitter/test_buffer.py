"""The buffer is bounded. It drops its oldest events and counts them."""

from __future__ import annotations

import threading

import pytest

from switchgear.emitter.buffer import Buffer, own
from switchgear.emitter.event import Event
from tests.support.limits import HAPPEN_S


def item(number: int):
    return Event(f"t{number}", "success"), float(number)


def append(buffer, one):
    """Add an event as the emitter does."""
    if len(buffer.items) >= buffer.limit:
        buffer.make_room()
    buffer.items.append(one)


def test_events_come_out_in_the_order_they_went_in():
    buffer = Buffer(10)
    for number in range(4):
        append(buffer, item(number))
    assert [at for _, at in buffer.take(3)] == [0, 1, 2]
    assert [at for _, at in buffer.take(3)] == [3]
    assert buffer.take(3) == []


def test_a_full_buffer_drops_its_oldest_event_and_counts_it():
    buffer = Buffer(3)
    for number in range(5):
        append(buffer, item(number))
    assert (len(buffer), buffer.dropped, buffer.accepted) == (3, 2, 5)
    assert [at for _, at in buffer.take(10)] == [2, 3, 4]
    assert buffer.accepted == 5


def test_taking_events_makes_room_in_the_buffer():
    buffer = Buffer(2)
    append(buffer, item(0))
    append(buffer, item(1))
    buffer.take(1)
    append(buffer, item(2))
    assert (len(buffer), buffer.dropped) == (2, 0)


def test_a_cleared_buffer_has_no_events_and_no_counts():
    buffer = Buffer(1)
    append(buffer, item(0))
    append(buffer, item(1))
    buffer.clear()
    assert (len(buffer), buffer.dropped, buffer.accepted) == (0, 0, 0)


@pytest.mark.slow
def test_the_buffer_loses_and_repeats_no_event_of_many_threads():
    buffer = Buffer(1_000)
    taken = []
    done = threading.Event()

    def produce():
        for number in range(5_000):
            append(buffer, item(number))

    def consume():
        while not done.is_set() or len(buffer):
            taken.extend(buffer.take(100))

    consumer = threading.Thread(target=consume)
    producers = [threading.Thread(target=produce) for _ in range(4)]
    for thread in [consumer, *producers]:
        thread.start()
    for thread in producers:
        thread.join(HAPPEN_S)
    done.set()
    consumer.join(HAPPEN_S)
    assert len(taken) + buffer.dropped == 20_000 == buffer.accepted
    assert len(buffer) == 0


def test_a_signal_handler_can_read_the_counts_during_any_method_of_the_buffer():
    buffer = Buffer(2)
    for number in range(3):
        append(buffer, item(number))
    with buffer._lock:  # the main thread is in a method, and the handler runs in the main thread
        assert (buffer.accepted, buffer.left, buffer.dropped) == (3, 1, 1)
        append(buffer, item(3))
    assert (buffer.accepted, buffer.left) == (4, 2)


def test_events_that_left_and_events_in_the_buffer_add_up_to_the_accepted_ones():
    buffer = Buffer(5)
    for number in range(9):
        append(buffer, item(number))
        buffer.take(number % 2)
        assert buffer.left + len(buffer) == buffer.accepted


def test_an_emitted_dict_is_copied_with_its_metadata():
    fields = {"tool_name": "t", "metadata": {"number": 1}}
    kept = own(fields)
    fields["tool_name"] = "u"
    fields["metadata"]["number"] = 2
    assert kept == {"tool_name": "t", "metadata": {"number": 1}}
