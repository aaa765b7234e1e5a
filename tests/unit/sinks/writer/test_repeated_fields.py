"""Distinguish messages that name a field twice from those that only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from switchgear_sinks.writer.repeated_fields import repeats_a_field
from tests.support.table import table


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"b":{"a":1},"a":2}',
        b'{"a":"x\\":","a":2}',
        '{"größe":1,"größe":1}'.encode(),
    ],
)
def test_a_field_that_is_named_twice_is_found(value: bytes) -> None:
    assert repeats_a_field(value)


@table(
    "value",
    [
        b"{}",
        b'{"a":1,"b":2}',
        b'{"a":1,"b":{"a":1}}',
        b'{"a":"{\\"a\\":1}"}',
        b'{"a":1,"b":{"c":1,"c":2}}',  # inside a nested object ClickHouse does not look
        b'{"a":[{"a":1},{"a":1}]}',
    ],
)
def test_text_that_looks_like_a_repeated_field_is_not_one(value: bytes) -> None:
    assert not repeats_a_field(value)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(), st.one_of(st.text(), st.integers(0, 9), st.dictionaries(st.text(), st.text())), min_size=1
    )
)
def test_only_an_objects_own_fields_can_be_repeated(fields: dict[str, object]) -> None:
    value = json.encode(fields)
    assert not repeats_a_field(value)
    name = json.encode(next(iter(fields)))
    assert repeats_a_field(b"{" + name + b":0," + value[1:])
