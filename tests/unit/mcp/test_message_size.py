"""What a message costs is counted before it is parsed, in pieces of any size."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_mcp.message_size import MIB, Body, Cost, Lines, TooLarge

VALUE = 128


def cost_of(data, piece=65_536, most=1 << 40):
    cost = Cost(most)
    for at in range(0, len(data), piece):
        cost.add(data[at : at + piece])
    return cost._spent


def values_in(value):
    """Count as the walls do: a bracket, and a comma or colon for each member."""
    if isinstance(value, dict):
        return 1 + len(value) + max(0, len(value) - 1) + sum(map(values_in, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(values_in, value))
    return 0


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab,:[{"\\\n/é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='a,"\\[', max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(JSON, st.integers(1, 40))
def test_the_cost_is_the_bytes_the_escapes_and_the_values_outside_of_texts_wherever_the_pieces_end(value, piece):
    data = json.dumps({"a": value}).encode()
    assert cost_of(data, piece) == len(data) + data.count(b"\\") + VALUE * values_in({"a": value})


def test_text_costs_its_bytes_and_dense_values_many_times_theirs():
    assert cost_of(b'{"a":"' + b",[{:" * MIB + b'"}') < 4 * MIB + 1_000
    dense = b"[" + b"[]," * MIB + b"0]"
    assert cost_of(dense) > 40 * len(dense)


def test_a_message_over_the_budget_is_noticed_long_before_its_end():
    cost, read = Cost(MIB), 0
    while cost.add(b"[]," * 1_000):
        read += 3_000
    assert read < MIB / 50


def test_lines_are_put_together_from_pieces():
    lines = Lines(MIB)
    found = [line for piece in (b"a", b"b\n\nc\nd", b"e", b"\n") for line in lines.add(piece)]
    assert found == [b"ab", b"c", b"de"]


@pytest.mark.parametrize("line", [b"x" * 2 * MIB, b'{"a":"' + b"y" * 2 * MIB + b'"}'])
def test_a_line_over_the_budget_is_left_out_and_the_next_one_is_read(line):
    lines, found = Lines(MIB), []
    for at in range(0, len(line), 50_000):
        found += lines.add(line[at : at + 50_000])
        assert sum(map(len, lines._pieces)) <= MIB + 50_000
    (left_out, after) = [*found, *lines.add(b"\nafter\n")]
    assert isinstance(left_out, TooLarge)
    assert after == b"after"


@pytest.mark.slow
def test_a_line_of_forty_megabytes_takes_linear_time():
    piece = b"x" * 65_536
    began = time.process_time()
    lines = Lines(64 * MIB)
    for _ in range(640):
        lines.add(piece)
    (line,) = lines.add(b"\n")
    assert len(line) == 640 * 65_536
    assert time.process_time() - began < 2  # the SDK's way takes more than ten


@pytest.mark.parametrize(
    ("first", "last", "request_id", "asks"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":[', b'"}]}}', 7, False),
        (b' { "id" : "a-1" , "jsonrpc":"2.0","result":{', b"}}", "a-1", False),
        (b'{"result":{"content":[{"text":"', b'"}]},"jsonrpc":"2.0","id":12}', 12, False),
        (b'{"result":{"content":[', b']},"id":3,"jsonrpc":"2.0"}\r', 3, False),
        (b'{"result":{"id":5,"text":"', b'\\"id\\":6}"},"jsonrpc":"2.0"}', None, False),
        (b'{"result":{"a":{', b'"id":5}}}', None, False),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{', b"}}", None, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{', b'},"id":7}', None, True),
        (b'{"method":"notifications/message","params":{', b'},"id":9}', None, True),
        (b"garbage", b"garbage", None, False),
        (b'{"id":%s,"result":{' % (b"9" * 4_000), b"}", None, False),
    ],
)
def test_the_request_of_a_message_that_was_left_out_is_found_at_its_ends(first, last, request_id, asks):
    found = TooLarge(first, last)
    assert (found.request, found.asks) == (request_id, asks)


# -- answers over HTTP ------------------------------------------------------------------------------------------------


def fits(body, data, piece):
    return all(body.add(data[at : at + piece]) for at in range(0, len(data), piece))


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 500])
def test_each_event_of_a_stream_has_the_whole_budget_wherever_the_pieces_end(end, piece):
    stream = (b"data: " + b"x" * 800 + end) * 5
    assert fits(Body(1_000, events=True), stream, piece)
    assert not fits(Body(1_000, events=False), stream, piece)


@pytest.mark.parametrize("piece", [1, 3, 500])
def test_an_event_of_many_lines_has_one_budget(piece):
    assert not fits(Body(1_000, events=True), b"data: [],\n" * 100 + b"\n\n", piece)
    assert fits(Body(1_000, events=True), b": ping\n\n" * 1_000, piece)
