"""Lines are put together from pieces of any size, with a bound."""

from __future__ import annotations

import time

import pytest

from switchgear_mcp.channel import MIB
from switchgear_mcp.lines import Lines, TooLarge


def test_lines_are_put_together_from_pieces():
    lines = Lines(MIB)
    found = [line for piece in (b"a", b"b\n\nc\nd", b"e", b"\n") for line in lines.add(piece)]
    assert found == [b"ab", b"c", b"de"]


@pytest.mark.parametrize("line", [b"x" * 2 * MIB, b'{"a":"' + b"y" * 2 * MIB + b'"}'])
def test_a_line_over_the_bound_is_left_out_and_the_next_one_is_read(line):
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
