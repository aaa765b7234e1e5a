import pytest

from switchgear.emitter.event import Event
from switchgear.fleet import Message
from switchgear.testing import FakeClock, MemoryEmitter, MemoryFollower
from switchgear_schemas import Circuit


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def sent():
    return []


@pytest.fixture
def emitter(clock, sent):
    return MemoryEmitter(lambda tool, value, urgent: sent.append((tool, value, urgent)), clock.wall, service="s")


def test_sends_an_event_before_emit_returns(emitter, sent, clock):
    clock.advance(5)
    assert emitter.emit(Event("search", "success"))
    ((tool, value, urgent),) = sent
    assert (tool, urgent) == ("search", False)
    assert b'"service":"s"' in value
    assert b"2027-01-15T08:00:05Z" in value


def test_passes_on_that_an_event_is_urgent(emitter, sent):
    emitter.emit({"tool_name": "search", "status": "error"}, urgent=True)
    assert [urgent for _, _, urgent in sent] == [True]


def test_counts_an_invalid_event_as_failed(emitter, sent):
    emitter.emit({"tool_name": "search", "status": "splendid"})
    assert sent == []
    assert emitter.status().failed == 1


def test_events_wait_in_order_while_disconnected(emitter, sent):
    emitter.cut()
    for tool in ("a", "b"):
        emitter.emit(Event(tool, "success"))
    assert sent == []
    assert (emitter.connected, emitter.status().buffered, emitter.flush()) == (False, 2, False)
    emitter.connect()
    assert [tool for tool, _, _ in sent] == ["a", "b"]
    assert (emitter.connected, emitter.status().acknowledged, emitter.flush()) == (True, 2, True)


def test_full_buffer_drops_the_oldest_event(clock, sent):
    emitter = MemoryEmitter(lambda tool, *_: sent.append(tool), clock.wall, buffer_size=2)
    emitter.cut()
    for tool in ("a", "b", "c"):
        emitter.emit(Event(tool, "success"))
    emitter.connect()
    assert sent == ["b", "c"]
    assert emitter.status().dropped == 1


def test_events_that_wait_count_as_dropped_after_close(emitter):
    emitter.cut()
    emitter.emit(Event("a", "success"))
    assert not emitter.close()
    assert (emitter.status().dropped, emitter.status().alive) == (1, False)
    assert not emitter.emit(Event("b", "success"))


def test_uses_the_given_emitter_id(clock, sent):
    emitter = MemoryEmitter(lambda _tool, value, _urgent: sent.append(value), clock.wall, emitter_id="p7")
    emitter.emit(Event("search", "success"))
    assert b'"emitter_id":"p7"' in sent[0]


def record(version, state="open", partition=0):
    circuit = Circuit(
        circuit_id="search",
        tool_name="search",
        state=state,
        version=version,
        generation=version,
        changed_at="2027-01-15T08:00:00Z",
    )
    return Message("t.circuits", partition, version, 1_800_000_000_000, b"search", circuit.to_bytes())


def test_follower_applies_records_and_calls_its_listeners(clock):
    follower = MemoryFollower(clock.monotonic)
    heard = []
    follower.listeners.append(heard.append)
    follower.deliver([record(1), record(2, "closed")])
    follower.deliver([])
    assert [view.version for view in heard] == [1, 2]
    assert follower.table.views["search"].state == "closed"
    assert (follower.status().circuits, follower.status().malformed) == (1, 0)


def test_follower_knows_how_long_the_broker_has_been_away(clock):
    follower = MemoryFollower(clock.monotonic)
    assert (follower.age_s(), follower.connected) == (0.0, True)
    follower.cut()
    clock.advance(20)
    follower.cut()
    assert (follower.age_s(), follower.connected, follower.status().stale) == (20.0, False, True)
    follower.mend()
    assert (follower.age_s(), follower.connected) == (0.0, True)


def test_follower_is_loaded_and_closed_without_a_thread(clock):
    follower = MemoryFollower(clock.monotonic)
    assert not follower.wait_loaded(0)
    follower.loaded = True
    assert follower.wait_loaded(0)
    assert follower.close()
