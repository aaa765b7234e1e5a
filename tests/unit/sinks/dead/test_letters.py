"""What can be read of a dead letter, and which ones are meant."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from switchgear_schemas import wire
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import InvalidExecutionError, SwitchgearError
from switchgear_sinks.dead import Selection, StoredLetter, hexdump
from switchgear_sinks.dead.retry import prepared, read_repairs, why_not
from tests.support.table import table

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def letter(value: bytes | None = b"junk", key: bytes | None = b"search", offset: int = 7, **fields) -> StoredLetter:
    given = {"reason": "the message is not JSON: truncated", "component": "worker"} | fields
    return StoredLetter(
        DeadLetter("executions", 3, offset, int(AT.timestamp() * 1000), original_key=key, value=value, **given), 0, 1, 2
    )


@table(
    ("value", "key", "tool"),
    [
        (b'{"tool_name":"fetch"}', b"search", "fetch"),
        (b'{"tool_name":3}', b"search", "search"),
        (b"junk", b"search", "search"),
        (b"\xff", b"\xff", "\ufffd"),
        (None, None, ""),
    ],
)
def test_tool_of_a_letter_is_in_its_bytes_or_else_its_key(value, key, tool):
    assert letter(value, key).tool == tool


def test_letter_shows_its_bytes_as_text_or_as_base64():
    assert letter("größe".encode()).in_full()["value"] == "größe"
    assert letter(b"\xff\x00").in_full()["value_base64"] == "/wA="
    assert letter(None).in_full()["value"] is None
    assert letter().summary() | {"reason": ""} == {
        "key": "executions-3-7", "topic": "executions", "partition": 3, "offset": 7, "at": "2026-11-21T12:00:00+00:00",
        "tool": "search", "component": "worker", "field": "", "reason": "", "bytes": 4,
        "truncated": False,
    }  # fmt: skip


def test_hexdump_shows_readable_characters_and_is_limited():
    assert hexdump(b"\x00ab\x1b[2J") == "00000000  00 61 62 1b 5b 32 4a                             .ab.[2J"
    assert hexdump(bytes(100), limit=32).splitlines()[-1] == "… 68 more bytes"


@table(
    ("selection", "meant"),
    [
        (Selection(), True),
        (Selection(reason="NOT json"), True),
        (Selection(reason="missing"), False),
        (Selection(component="sink"), False),
        (Selection(tool="search", component="worker"), True),
        (Selection(tool="sear"), False),
        (Selection(field="tool_name"), False),
        (Selection(since=AT), True),
        (Selection(since=AT + timedelta(seconds=1)), False),
    ],
)
def test_selection_matches_letters_that_meet_every_criterion(selection, meant):
    assert selection.matches(letter()) is meant


def test_complete_message_is_sent_again_byte_for_byte():
    value = b'{"status":"error", "tool_name":"x","metric_id":"00000000-0000-7000-8000-000000000001","recorded_at":"2026-11-21T10:00:00Z","new":1}'
    assert prepared(letter(), value) == ("x", value)


def test_retried_message_gets_the_same_id_and_time_at_every_retry():
    value = '{"tool_name":"größe","status":"error","new":{"a":1},"user_id":null}'.encode()
    tool, message = prepared(letter(), value)
    assert (tool, message) == prepared(letter(), value)
    assert tool == "größe"
    fields = json.loads(message)
    assert fields["recorded_at"] == "2026-11-21T12:00:00+00:00"
    assert fields["new"] == {"a": 1}
    assert isinstance(wire.decode_execution(message).metric_id, UUID)
    assert prepared(letter(offset=8), value)[1] != message, "another letter is another event"


def test_retry_of_an_invalid_message_names_the_field():
    with pytest.raises(InvalidExecutionError) as caught:
        prepared(letter(), b'{"tool_name":"x","status":"maybe"}')
    assert caught.value.field == "status"


def test_only_executions_can_be_sent_again():
    assert why_not(letter(), "executions") is None
    reason = why_not(letter(), "other.executions")
    assert reason is not None
    assert "only executions can be sent again" in reason.reason


def test_repairs_are_lines_with_a_key_and_an_event_or_its_text():
    lines = [
        '{"key":"a-0-1","value":{"tool_name":"x"},"reason":"bad"}',
        "",
        '{"key":"a-0-2","value":"{\\"tool_name\\":1}"}',
    ]
    assert read_repairs(lines, "f") == {"a-0-1": b'{"tool_name":"x"}', "a-0-2": b'{"tool_name":1}'}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"f, line 2 is not JSON"),
        ("[]", r'f, line 2 must be an object with "key" and "value"'),
        ('{"key":"a"}', r'must be an object with "key" and "value"'),
        ('{"key":"k","value":{}}', r"f, line 2: the key k came before"),
    ],
)
def test_invalid_line_of_repairs_is_named_by_its_number(line, message):
    with pytest.raises(SwitchgearError, match=message):
        read_repairs(['{"key":"k","value":{}}', line], "f")


def cut() -> StoredLetter:
    whole = letter(b"{" + b" " * 100_000 + b"}")
    return StoredLetter(whole.letter.truncate(70_000), 0, 1, 2)


def test_a_truncated_letter_is_sent_again_with_a_whole_message_only():
    reason = why_not(cut(), "executions")
    assert reason is not None
    assert reason.reason.startswith(
        "the letter has only the first 65,536 of 100,002 bytes; the original is at offset 7 of partition 3"
    )
    assert why_not(cut(), "executions", cut().letter.body) is not None, (
        "the line that `dead list --jsonl` wrote, as it is"
    )
    assert why_not(cut(), "executions", b"{}") is None


def test_a_truncated_letter_says_so_where_it_is_shown():
    shown = cut().in_full()
    assert (shown["bytes"], shown["truncated"], len(shown["value"])) == (100_002, True, 65_536)
    assert shown["value_sha256"] == cut().letter.value_sha256


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 2**63 - 1, -(2**63)])
def test_letter_with_an_impossible_time_shows_the_nearest_date(timestamp_ms):
    found = StoredLetter(DeadLetter("executions", 3, 7, timestamp_ms, "reason", "sink"), 0, 1, 2)
    assert found.at.year in {1970, 9999}
    assert StoredLetter(found.letter, 0, 1, timestamp_ms).written_at.year in {1970, 9999}


def test_selection_of_a_place_is_one_letter_of_the_dead_letter_topic():
    assert Selection(place=(0, 1)).matches(letter())
    assert not Selection(place=(0, 2)).matches(letter())
    assert not Selection(place=(1, 1)).matches(letter())
