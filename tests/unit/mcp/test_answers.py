"""Answers over HTTP have a bound, and the SDK's client makes an error of the request from what breaks it."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx2
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from switchgear_mcp import answers
from switchgear_mcp.message_size import MIB

MOST = MIB


def answer(text, request_id=1):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"text": text}}).encode()


async def pieces(data):
    for at in range(0, len(data), 50_000):
        yield data[at : at + 50_000]


async def asked(data, headers):
    """Return what the SDK's client makes of an answer with these bytes, and the headers of its request."""
    seen = []

    def handler(request):
        seen.append(request)
        return httpx2.Response(200, headers=headers, content=pieces(data))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler), headers=answers.HEADERS) as http:

        async def look_at(response):
            answers.bound(response, "small", MOST)

        http.event_hooks["response"].append(look_at)
        url = "https://h/mcp"
        async with streamable_http_client(url, http_client=http, max_sse_event_size=2 * MOST) as (read, write):
            request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={})
            await write.send(SessionMessage(request))
            async with asyncio.timeout(20):
                found = await read.receive()
    return found.message, seen[0].headers


JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


@pytest.mark.parametrize(
    ("data", "headers"), [(answer("x" * 900_000), JSON), (b"data: " + answer("x" * 900_000) + b"\n\n", EVENTS)]
)
async def test_an_answer_within_the_bound_arrives_whole_and_none_is_asked_for_in_a_compressed_form(data, headers):
    found, sent = await asked(data, headers)
    assert found.result == {"text": "x" * 900_000}
    assert sent["accept-encoding"] == "identity"


@pytest.mark.parametrize("kind", ["text", "values"])
@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_an_answer_over_the_bound_is_an_error_of_its_request(kind, headers):
    data = (
        answer("x" * 3 * MIB)
        if kind == "text"
        else b'{"id":1,"jsonrpc":"2.0","result":{"a":[' + b"[]," * 30_000 + b"0]}}"
    )
    found, _ = await asked(data if headers is JSON else b"data: " + data + b"\n\n", headers)
    assert isinstance(found, types.JSONRPCError)
    assert "is larger than the proxy reads (1 MiB)" in found.error.message


@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_an_answer_that_is_compressed_all_the_same_is_not_unpacked(headers):
    bomb = gzip.compress(b"\x00" * 64 * MIB)
    found, _ = await asked(bomb, headers | {"content-encoding": "gzip"})
    assert "answered in 'gzip', though the proxy asked for no compression" in found.error.message
