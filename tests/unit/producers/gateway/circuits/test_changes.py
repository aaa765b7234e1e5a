"""The changes that streams share, and the cursors by which a client resumes at any gateway."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from switchgear.fleet import Message
from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_http.visibility import Sight

NOON_MS = 1_800_000_000_000


def record(
    tool: str, offset: int, version: int | None = 1, *, partition: int = 0, at: int = 0, **fields: Any
) -> Message:
    """A record of a circuit; without a version its removal."""
    document = {"circuit_id": tool, "tool_name": tool, "state": "open", "version": version, **fields}
    value = None if version is None else json.dumps(document).encode()
    return Message("circuits", partition, offset, NOON_MS + offset + at, tool.encode(), value)


def names(changes: Any) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in changes]


def test_a_cursor_of_one_gateway_resumes_at_another_that_has_read_the_same_topic() -> None:
    first, second = CircuitChanges(), CircuitChanges()
    read = [record(f"t{number % 5}", number // 3, number, partition=number % 3) for number in range(30)]
    cursors = [first.add(each).cursor for each in read]
    for each in sorted(read, key=lambda each: each.partition):  # another order between the partitions
        second.add(each)
    assert second.cursor == first.cursor
    for number, cursor in enumerate(cursors):
        missed = second.after(cursor)
        assert missed is not None
        assert sorted(names(missed)) == sorted(names(first.log.since(number + 1)))
    assert list(second.after(first.cursor)) == []


def test_a_client_that_has_nothing_gets_all_changes_while_they_are_in_memory() -> None:
    changes = CircuitChanges()
    empty = changes.cursor
    changes.add(record("a", 0))
    changes.add(record("b", 0, partition=1))
    assert names(changes.after(empty)) == [(0, 0), (1, 0)]


def test_a_cursor_gets_no_changes_if_it_is_too_old_or_ahead_or_damaged_or_of_an_earlier_topic() -> None:
    changes = CircuitChanges(max_changes=8)
    cursors = [changes.add(record("a", offset, offset + 1)).cursor for offset in range(20)]
    assert changes.after(cursors[0]) is None, "it is too old"
    assert changes.after(CircuitChanges().cursor) is None, "so is none at all"
    assert changes.after(cursors[15]) is not None

    ahead = CircuitChanges()
    assert changes.after(ahead.add(record("a", 20, 21)).cursor) is None
    other = CircuitChanges()
    assert changes.after(other.add(record("a", 19, 20, at=1)).cursor) is None, (
        "the same offset, written at another time"
    )
    for text in ("", "-", "0.f", "x", "0.f-zzzzzzzz", "0.f-00000000", "0-00000000", "~" * 9_000, "1.0-" + "0" * 8):
        assert changes.after(text) is None


def test_the_last_forgotten_change_of_a_partition_is_enough_to_resume() -> None:
    changes = CircuitChanges(max_changes=8)
    quiet = record("quiet", 7, partition=1)
    cursor = changes.add(quiet).cursor
    for offset in range(8):
        changes.add(record("a", offset, offset + 1))
    assert changes.log.since(0) is None, "the quiet partition's change is forgotten"
    other = CircuitChanges()
    assert other.add(quiet).cursor == cursor
    assert names(changes.after(cursor)) == [(0, offset) for offset in range(8)]
    changes.add(record("a", 8, 9))
    assert changes.after(cursor) is None, "a later change is forgotten, too"


@pytest.mark.slow
def test_changes_in_memory_have_a_bound_and_the_circuits_stay() -> None:
    changes = CircuitChanges(max_changes=1_000, max_bytes=50_000)
    for offset in range(3_000):
        changes.add(record(f"t{offset % 100}", offset, offset + 1, last_error="x" * 200))
    kept = changes.log.since(changes.log.end - 100)
    assert kept is not None
    assert len(kept) == 100
    assert sum(len(each.json or b"") for each in changes.log.since(changes.log.start) or ()) <= 50_000
    assert len(changes._known) == changes.log.end - changes.log.start
    assert len(changes.records) == 100
    assert changes.log.end == 3_000


def test_random_interleavings_of_gateways_and_clients_never_lose_a_change() -> None:
    chance = random.Random(7)
    log = [
        [record(f"t{p}{chance.randrange(3)}", offset, offset + 1, partition=p) for offset in range(40)]
        for p in range(3)
    ]
    gateways = [CircuitChanges(max_changes=30) for _ in range(2)]
    read = [[0, 0, 0], [0, 0, 0]]
    cursor: str = CircuitChanges().cursor
    seen: dict[str, int] = {}
    resumed = snapshots = 0
    for _ in range(400):
        which = chance.randrange(2)
        gateway = gateways[which]
        for _ in range(chance.randrange(4)):
            partition = chance.randrange(3)
            if read[which][partition] < 40:
                gateway.add(log[partition][read[which][partition]])
                read[which][partition] += 1
        missed = gateway.after(cursor)
        if missed is None:
            snapshots += 1
            seen = {each.circuit_id: each.offset for each in gateway.records.values()}
        else:
            resumed += 1
            for each in missed:
                seen[each.circuit_id] = each.offset
        cursor = gateway.cursor
        assert seen == {each.circuit_id: each.offset for each in gateway.records.values()}
    assert resumed > 20
    assert snapshots > 5


def test_an_event_is_one_line_of_data_and_is_encoded_once() -> None:
    changes = CircuitChanges()
    value = b'{\n  "circuit_id": "a\xc3\xa9",\r\n  "tool_name": "a\xc3\xa9", "state": "open",\n "version": 1, "last_error": "x\\ny"}'
    change = changes.add(Message("circuits", 0, 0, NOON_MS, "aé".encode(), value))
    event = change.event(None)
    assert event is change.event(None)
    identity, kind, data, *rest = event.decode().split("\n")
    assert (identity, kind, rest) == (f"id: {changes.cursor}", "event: circuit", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == json.loads(value)


def test_a_removed_circuit_is_an_event_that_says_so() -> None:
    changes = CircuitChanges()
    changes.add(record("a|user=1", 0))
    change = changes.add(record("a|user=1", 1, None))
    assert (change.tool, change.scope) == ("a", "user")
    assert b'data: {"circuit_id":"a|user=1","removed":true}\n' in change.event(None)
    assert changes.records == {}


def test_a_tenant_gets_what_it_may_see_of_a_record_and_others_all_of_it() -> None:
    change = CircuitChanges().add(record("a", 0, counts={"calls": 9}, last_error="secret", cause={"rule": "command"}))
    acme = Sight(tenant="acme")
    found = {"circuit_id": "a", "tool_name": "a", "state": "open", "version": 1, "cause": {"rule": "command"}}
    assert json.loads(change.data(acme)) == found
    assert change.current(acme, "7") == change.event(acme).replace(change.cursor.encode(), b"7", 1)
    assert b"secret" in change.data(None)


@pytest.mark.parametrize("value", [b"not json", b"{}", b'{"circuit_id":"\xff","tool_name":"a"}'])
def test_a_record_that_is_no_circuit_is_an_error_and_changes_nothing(value: bytes) -> None:
    changes = CircuitChanges()
    with pytest.raises((ValueError, UnicodeDecodeError)):
        changes.add(Message("circuits", 0, 0, NOON_MS, b"a", value))
    assert (changes.log.end, changes.cursor) == (0, CircuitChanges().cursor)
