"""Slow, silent and ambiguous clients of the worker's HTTP server, with raw sockets and small limits."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from switchgear_stream.http import serving
from tests.support.raw_http import FRAMINGS, GET, answers, asked, crowd
from tests.support.table import table


async def _ok(_: web.BaseRequest) -> web.Response:
    answer = web.Response(text="ok")
    answer.force_close()
    return answer


@table("sent", FRAMINGS.values(), ids=FRAMINGS)
async def test_an_ambiguous_request_is_answered_at_most_once_and_what_follows_it_not_at_all(sent):
    async with serving(_ok, "127.0.0.1:0") as port:
        assert len(answers(await asyncio.to_thread(asked, port, sent))) <= 1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    ],
    ids=["nothing", "a header", "a body", "chunks"],
)
async def test_a_request_that_does_not_end_is_closed_when_the_connections_life_is_over(sent):
    async with serving(_ok, "127.0.0.1:0", life_s=0.02) as port:
        assert len(answers(await asyncio.to_thread(asked, port, sent))) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"]
)
async def test_a_probe_gets_through_a_crowd_that_holds_every_connection(sent):
    def through(port: int) -> list[int]:
        with crowd(port, 200, sent):
            return answers(asked(port, GET))

    async with serving(_ok, "127.0.0.1:0", most=16, life_s=60) as port:
        assert await asyncio.to_thread(through, port) == [200]


async def test_an_answer_closes_its_connection_and_the_next_one_has_its_own_life():
    async with serving(_ok, "127.0.0.1:0", most=2) as port:
        for _ in range(5):
            assert answers(await asyncio.to_thread(asked, port, GET + GET)) == [200]


@pytest.mark.slow
async def test_malformed_requests_are_not_logged_and_errors_of_the_server_are(caplog):
    async def fail(_: web.BaseRequest) -> web.Response:
        raise LookupError("ours")

    async with serving(fail, "127.0.0.1:0", life_s=1) as port:
        for sent in FRAMINGS.values():
            await asyncio.to_thread(asked, port, sent)
        before = [record for record in caplog.records if "LookupError" not in str(record.exc_info)]
        await asyncio.to_thread(asked, port, GET)
    assert before == []
    assert "LookupError" in caplog.text
