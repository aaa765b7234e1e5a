from __future__ import annotations

from switchgear_schemas.headers import REKEYED
from tests.support.fleet import World, event
from tests.support.table import table

MALFORMED = {
    "empty": (b"", "", "empty"),
    "tombstone": (None, "", "empty"),
    "not JSON": (b"hello", "", "JSON"),
    "not UTF-8": (b'{"tool_name":"\xff","status":"error"}', "", "JSON"),
    "cut off": (event()[:-1], "", "JSON"),
    "not an object": (b"[1]", "", "object"),
    "missing tool": (b'{"status":"error"}', "tool_name", "missing"),
    "missing status": (b'{"tool_name":"search"}', "status", "missing"),
    "unknown status": (event(status="maybe"), "status", "maybe"),
    "a number for a name": (b'{"tool_name":7,"status":"error"}', "tool_name", "str"),
    "empty name": (event(""), "tool_name", "length"),
    "long name": (event("x" * 257), "tool_name", "length"),
    "text for a number": (event(execution_time_ms="fast"), "execution_time_ms", "float"),
    "negative duration": (event(execution_time_ms=-1), "execution_time_ms", ">= 0"),
    "two megabytes": (event(error_message="x" * 2_000_000), "", "bytes"),
    "year 1970": (event(recorded_at="1970-01-01T00:00:00Z"), "recorded_at", "1970"),
    "year 2200": (event(recorded_at="2200-01-01T00:00:00Z"), "recorded_at", "2200"),
    "no time": (event(recorded_at="yesterday"), "recorded_at", "datetime"),
}


@table("kind", MALFORMED)
def test_a_malformed_message_is_a_dead_letter_with_its_reason_and_takes_no_good_one_with_it(kind):
    value, field, reason = MALFORMED[kind]
    world = World()
    world.say()
    bad = world.append(value)
    world.say()
    world.run_all()
    (letter,) = world.dead
    assert letter.field == field
    assert reason in letter.reason
    assert letter.value == value
    assert (letter.topic, letter.partition, letter.offset) == (bad.topic, bad.partition, bad.offset)
    assert letter.component == "worker"
    assert letter.original_key == b"search"
    assert world.row().total_calls == 2


@table("header", [b"", b"1", b"a:b", b"1:", b":1", b"-1:2", b"1:2:3", b"4:1", b"1:" + b"9" * 30, "1:²".encode()])
def test_a_forged_origin_is_a_dead_letter(header):
    world = World()
    world.append(event(), headers=[(REKEYED, header)])
    world.run_all()
    assert REKEYED in world.dead[0].reason
    assert world.rows == {}


def test_a_malformed_message_that_is_read_twice_gives_the_same_dead_letter():
    world = World()
    world.append(b"bad")
    world.run(crash="after_outputs")
    world.run_all()
    first, second = world.dead
    assert first.key == second.key
