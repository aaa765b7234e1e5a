"""Requests with two lengths at the API, as the sink serves it: one answer, and nothing runs."""

from urllib.parse import urlsplit

import pytest

from tests.support.raw_http import FRAMINGS, answers, asked

BODY = b'{"query": "SELECT 1"}'
HEAD = b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def test_a_query_with_both_lengths_is_answered_once_with_400(api_url):
    head = HEAD + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(CHUNKED)
    received = asked(urlsplit(api_url).port, head + CHUNKED + HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
    assert answers(received) == [400]
    assert b"rows" not in received


@pytest.mark.parametrize("sent", FRAMINGS.values(), ids=FRAMINGS)
def test_an_ambiguous_request_is_answered_once_with_400(sent, api_url):
    assert answers(asked(urlsplit(api_url).port, sent)) == [400]


@pytest.mark.deep
def test_queries_one_after_the_other_on_one_connection_are_each_answered(api_url):
    first = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED
    last = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
    received = asked(urlsplit(api_url).port, first + first + last)
    assert answers(received) == [200, 200, 200]
    assert received.count(b'"row_count":1') == 3
