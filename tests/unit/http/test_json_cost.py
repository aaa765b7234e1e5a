"""JSON is weighed before it is built: texts with too many values are found, and long texts are not taken for them."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest

from switchgear_http.json_cost import _CHUNK, ALWAYS, commas_in, cost_of, is_dear
from tests.support.table import table

MB = 1_000_000


def repeated(value: bytes, size: int) -> bytes:
    """An array of so many bytes."""
    return b"[" + b",".join([value] * (size // (len(value) + 1))) + b"]"


DEAR = [b"{}", b"[]", b"[[]]", b'{"a":1}', b'"a"', b"1", b'{"key":"k","value":{"stringValue":"v"}}']


@pytest.mark.slow
@table("value", DEAR)
def test_text_of_many_small_values_is_dear_if_it_is_long_and_not_if_it_is_short(value):
    assert is_dear(repeated(value, MB))
    assert not is_dear(repeated(value, 40_000))


@table(
    "text",
    [
        json.dumps({"text": "[{},{}," * 200_000}).encode(),
        json.dumps({"text": '{"a": 1, "b": [2, 3]}, ' * 100_000}).encode(),
        json.dumps(["a, b, c, d, e, f, g, h, i, j, k, l, m" * 3] * 20_000).encode(),
        repeated(b"0.0123456789", MB),
        repeated(b'{"name":"a name of ordinary length","size":123456,"at":"2026-11-28T12:00:00Z"}', MB),
    ],
    ids=["brackets in a text", "JSON in a text", "commas in texts", "an embedding", "records"],
)
def test_ordinary_long_text_is_not_dear(text):
    json.loads(text)
    assert not is_dear(text)


@pytest.mark.slow
@table("value", [*DEAR, b"12345", b"0.123", b'{"id":12345,"name":"something","ok":true}'])
def test_values_take_no_more_memory_than_estimated(value):
    text = repeated(value, MB // 4)
    tracemalloc.start()
    try:
        kept = msgspec.json.decode(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert taken < 1.1 * cost_of(text)
    assert cost_of(text) < 6 * taken


@pytest.mark.slow
@table("shift", range(12))
def test_commas_outside_of_texts_are_counted_also_at_the_borders_of_chunks(shift):
    values = ['x"', "\\", '\\"', "a,b", "", ",", '\\\\",']
    text = (" " * (_CHUNK - 20 - shift)).encode() + json.dumps(values * 10_000).encode()
    assert commas_in(text) == len(values) * 10_000 - 1


def test_memory_that_is_always_allowed_is_enough_for_ordinary_requests():
    assert 2 * cost_of(json.dumps([{"key": "k", "value": {"stringValue": "v"}}] * 2_000).encode()) < ALWAYS
