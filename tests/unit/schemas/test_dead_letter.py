"""A dead letter keeps the message byte for byte, and says where it came from and why."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import DeadLetter
from tests.support.table import table


@pytest.mark.slow
@given(value=st.none() | st.binary(), key=st.none() | st.binary(), reason=st.text(), offset=st.integers(0, 2**63 - 1))
def test_a_dead_letter_reads_back_as_written(value, key, reason, offset):
    letter = DeadLetter(
        topic="executions",
        partition=3,
        offset=offset,
        timestamp_ms=5,
        reason=reason,
        component="worker",
        original_key=key,
        value=value,
    )
    assert DeadLetter.from_record(letter.body, letter.headers()) == letter


def test_two_readers_of_one_message_write_dead_letters_with_the_same_key():
    letters = [
        DeadLetter(topic="t", partition=1, offset=7, timestamp_ms=0, reason=reason, component=component)
        for reason, component in [("not JSON", "worker"), ("at row 1", "sink")]
    ]
    assert letters[0].key == letters[1].key == b"t-1-7"


def test_the_dead_letter_of_a_message_without_value_is_not_a_tombstone():
    letter = DeadLetter(topic="t", partition=0, offset=0, timestamp_ms=0, reason="empty", component="sink")
    assert letter.body == b""


def test_another_record_is_not_read_as_a_dead_letter():
    with pytest.raises(KeyError):
        DeadLetter.from_record(b"{}", [("traceparent", b"00-1-1-00")])


def rejected(**fields) -> DeadLetter:
    given = {"reason": "too large", "component": "worker", "original_key": b"search", "value": b"x"}
    return DeadLetter(topic="executions", partition=3, offset=7, timestamp_ms=5, **(given | fields))


@pytest.mark.slow
@given(
    length=st.integers(0, 300_000),
    key=st.none() | st.integers(0, 10_000).map(bytes),
    reason=st.text(max_size=3_000) | st.text(st.characters(categories=["Cs", "So"]), max_size=3_000),
    limit=st.integers(8_192, 200_000),
)
def test_a_truncated_dead_letter_never_exceeds_its_limit(length, key, reason, limit):
    truncated = rejected(value=bytes(length), original_key=key, reason=reason, field=reason).truncate(limit)
    assert truncated.size <= limit
    assert sum(len(value) for _, value in truncated.headers()) + len(truncated.body) < limit - 1_000
    assert truncated.truncate(limit) == truncated
    assert truncated.truncated is (len(truncated.body) < length)


@pytest.mark.slow
def test_a_value_that_does_not_fit_keeps_its_beginning_size_and_hash():
    value, key = b"abc" * 7_000_000, b"k" * 3_000_000
    truncated = rejected(value=value, original_key=key).truncate()
    assert truncated.truncated
    assert (truncated.body, truncated.value_bytes) == (value[:65_536], 21_000_000)
    assert truncated.value_sha256 == sha256(value).hexdigest()
    assert (truncated.original_key, truncated.key_bytes) == (key[:4_096], 3_000_000)
    assert truncated.key_sha256 == sha256(key).hexdigest()
    assert DeadLetter.from_record(truncated.body, truncated.headers()) == truncated


@pytest.mark.slow
def test_a_dead_letter_without_its_value_has_the_size_and_hash_of_the_whole():
    value = b"abc" * 7_000_000
    bare = rejected(value=value, original_key=bytes(5_000), reason="ö" * 9_000).truncate().without_value()
    assert (bare.body, bare.value_bytes, bare.value_sha256) == (b"", 21_000_000, sha256(value).hexdigest())
    assert bare.size < 8_192
    assert bare.key_bytes == 5_000


def test_a_dead_letter_that_fits_stays_unchanged():
    letter = rejected(value=bytes(4 * 1_048_576))
    assert letter.truncate() is letter
    assert rejected(value=None).without_value() == rejected(value=None)


@table(
    ("header", "raw"),
    [
        ("partition", b"-1"),
        ("offset", b"9" * 5_000),
        ("offset", b"%d" % 2**63),
        ("timestamp_ms", b"soon"),
        ("reason", b"\xff"),
        ("value_bytes", b"-3"),
    ],
)
def test_a_dead_letter_with_a_wrong_header_is_a_value_error(header, raw):
    headers = dict(rejected().headers()) | {f"switchgear.dead.{header}": raw}
    with pytest.raises(ValueError, match=r"number|digits|literal|decode"):
        DeadLetter.from_record(b"", list(headers.items()))
