from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.fleet.rows import Row, RowError, applied, describe_error
from tests.support.table import table

rows = st.builds(
    Row,
    circuit_id=st.text(),
    tool_name=st.text(min_size=1),
    breaker=st.binary(),
    fences=st.dictionaries(st.integers(0, 1000), st.integers(-1, 2**62 - 1)),
    applied=st.integers(0, 2**62 - 1),
    total_calls=st.integers(0, 2**62 - 1),
    last_error=st.none() | st.text(),
    commands=st.lists(st.text(), max_size=3).map(tuple),
    record=st.none() | st.binary(),
)


@pytest.mark.slow
@given(rows)
def test_a_row_is_equal_after_encoding_and_decoding(row):
    assert Row.decode(row.encode()) == row


@pytest.mark.slow
@given(rows, rows)
def test_two_versions_compare_without_a_decode(one, two):
    assert (applied(one.encode()) < applied(two.encode())) == (one.applied < two.applied)


@table("data", [b"", b"\x01", b"\x02" + bytes(20), b"\x01" + bytes(8) + b"\xc1", b"\x01" + bytes(8) + b"\x90"])
def test_refuses_bytes_that_are_not_a_row(data):
    with pytest.raises(RowError, match=r"row of the changelog"):
        Row.decode(data)


def test_a_row_written_before_a_field_was_added_still_loads():
    row = Row(circuit_id="a", tool_name="a", applied=7)
    short = msgspec.msgpack.encode(list(msgspec.structs.astuple(row))[:7])
    assert Row.decode(row.encode()[:9] + short) == row


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [("E", "m", "E: m"), ("E", None, "E"), (None, "m", "timeout: m"), (None, None, "timeout")],
)
def test_an_error_is_described_in_one_line(kind, message, text):
    assert describe_error(kind, message, "timeout") == text
