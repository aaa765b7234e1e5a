"""A dead letter keeps the message byte for byte, and says where it came from and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import DeadLetter


@given(value=st.none() | st.binary(), key=st.none() | st.binary(), reason=st.text(), offset=st.integers(0, 2**63 - 1))
def test_it_reads_back_as_written(value, key, reason, offset):
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


def test_two_readers_of_one_message_write_one_key():
    letters = [
        DeadLetter(topic="t", partition=1, offset=7, timestamp_ms=0, reason=reason, component=component)
        for reason, component in [("not JSON", "worker"), ("at row 1", "sink")]
    ]
    assert letters[0].key == letters[1].key == b"t-1-7"


def test_a_message_without_value_is_no_tombstone():
    letter = DeadLetter(topic="t", partition=0, offset=0, timestamp_ms=0, reason="empty", component="sink")
    assert letter.body == b""


def test_another_record_is_not_taken_for_one():
    with pytest.raises(KeyError):
        DeadLetter.from_record(b"{}", [("traceparent", b"00-1-1-00")])
