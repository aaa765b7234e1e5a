"""Bodies that are too large or too slow are refused, however the application takes it."""

import asyncio
import json

import pytest

from switchgear_http.body import LimitedBody
from switchgear_http.limits import Limits
from switchgear_http.problem import ProblemError
from tests.support.virtual_time import in_virtual_time

LIMITS = Limits(body_bytes=100, body_pause_s=0.05, body_s=0.15)


def request(*chunks, pause_s=0.0):
    """A server's channel that brings these parts, each after a pause, and then waits for ever."""
    left = list(chunks)

    async def receive():
        if not left:
            await asyncio.Event().wait()
        await asyncio.sleep(pause_s)
        chunk = left.pop(0)
        return {"type": "http.request", "body": chunk or b"", "more_body": bool(left)}

    return receive


async def answered(receive, app, declared=None):
    """Run an application on limited channels, and return the status and the body that the client gets."""
    sent = []

    async def send(message):
        sent.append(message)

    body = LimitedBody(receive, send, LIMITS, declared)
    try:
        await app(body.receive, body.send)
    except ConnectionError:
        assert body.refusal is not None
    await body.finish()
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
    return sent[0]["status"], sent[1]["body"]


async def patient(receive, send):
    size, message = 0, {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        size += len(message["body"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def touchy(receive, send):
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        if not message["more_body"]:
            break
    await patient(request(b""), send)


async def silent(receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_body_within_the_limits_arrives_as_it_was_sent():
    assert await answered(request(b"a" * 60, b"b" * 40), patient) == (200, b"100")


@pytest.mark.parametrize("app", [patient, touchy, silent])
async def test_chunked_body_that_grows_too_large_is_refused_with_413(app):
    status, body = await answered(request(*[b"a" * 30] * 9), app)
    assert status == 413
    assert "100 bytes" in json.loads(body)["detail"]


@pytest.mark.parametrize("app", [patient, touchy, silent])
async def test_client_that_stops_in_its_body_is_refused_with_408(app):
    async def stops():
        await asyncio.Event().wait()

    status, _ = await answered(stops, app)
    assert status == 408


async def test_client_that_sends_a_byte_now_and_then_is_refused_when_the_whole_time_is_over():
    status, _ = await answered(request(*[b"a"] * 90, pause_s=0.03), patient)
    assert status == 408


async def test_declared_length_that_is_too_large_is_refused_before_a_byte_is_read():
    with pytest.raises(ProblemError, match="100 bytes") as caught:
        LimitedBody(request(), silent, LIMITS, 101)
    assert caught.value.status == 413
    LimitedBody(request(), silent, LIMITS, 100)


@in_virtual_time
async def test_wait_for_the_client_to_leave_has_no_limit_after_a_complete_body():
    body = LimitedBody(request(b"a"), silent, LIMITS, 1)
    assert (await body.receive())["body"] == b"a"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(body.receive(), 3_600)  # own limit: virtual time
    assert body.refusal is None


async def test_answer_that_has_begun_is_not_replaced():
    sent = []

    async def send(message):
        sent.append(message["type"])

    body = LimitedBody(request(*[b"a" * 60] * 3), send, LIMITS, None)
    await body.send({"type": "http.response.start", "status": 200, "headers": []})
    await silent(body.receive, body.send)
    await body.send({"type": "http.response.body", "body": b""})
    await body.finish()
    assert sent == ["http.response.start", "http.response.body"]
