"""Errors of the clients of OpenAI and Anthropic are classified, against a real server."""

from __future__ import annotations

import json

import anthropic
import httpx
import openai
import pytest

from switchgear.classify import Classification, classify

pytestmark = pytest.mark.slow


@pytest.fixture
def of_openai():
    def call(address, limit_s=10, **more):
        with openai.OpenAI(api_key="k", base_url=address, max_retries=0, timeout=limit_s) as client:
            found = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], **more)
            if more:
                list(found)

    return call


@pytest.fixture
def of_anthropic():
    def call(address, limit_s=10, **more):
        with anthropic.Anthropic(api_key="k", base_url=address, max_retries=0, timeout=limit_s) as client:
            found = client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}], **more)
            if more:
                list(found)

    return call


@pytest.fixture(params=["of_openai", "of_anthropic"])
def client(request):
    return request.getfixturevalue(request.param)


def raised(client, address, **more):
    try:
        client(address, **more)
    except Exception as error:  # noqa: BLE001 - whatever it is
        assert type(error).__module__.startswith(("openai", "anthropic"))
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "invalid_input"),
        (401, "auth"),
        (408, "timeout"),
        (429, "rate_limited"),
        (500, "server"),
        (529, "server"),
    ],
)
def test_classifies_the_status_of_a_real_answer(url, client, status, expected):
    assert classify(raised(client, f"{url}/status/{status}")) == Classification(expected)


@pytest.mark.slow
def test_classifies_overload_and_rate_limit_of_model_providers(url, of_openai, of_anthropic):
    assert isinstance(raised(of_openai, f"{url}/status/429"), openai.RateLimitError)
    assert isinstance(raised(of_openai, f"{url}/status/400"), openai.BadRequestError)
    assert isinstance(raised(of_openai, f"{url}/status/401"), openai.AuthenticationError)
    assert isinstance(raised(of_anthropic, f"{url}/status/529"), anthropic.OverloadedError)
    assert isinstance(raised(of_anthropic, f"{url}/status/429"), anthropic.RateLimitError)


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503, 529])
def test_wait_in_milliseconds_comes_before_seconds(url, client, status):
    error = raised(client, f"{url}/status/{status}?retry-after-ms=1250&retry-after=9&the-path=")
    assert classify(error).retry_after_s == 1.25
    assert classify(raised(client, f"{url}/status/{status}?retry-after=9&the-path=")).retry_after_s == 9


def test_late_answer_has_class_timeout(url, client):
    error = raised(client, f"{url}/slow", limit_s=0.05)
    assert isinstance(error, (openai.APITimeoutError, anthropic.APITimeoutError))
    assert classify(error) == Classification("timeout")


def test_unreachable_provider_has_class_transport(url, unreachable, client):
    refused = raised(client, unreachable)
    assert isinstance(refused, (openai.APIConnectionError, anthropic.APIConnectionError))
    assert classify(refused) == Classification("transport")
    assert classify(raised(client, f"{url}/close")) == Classification("transport")


def openai_error(status, body, headers=None):
    response = httpx.Response(status, headers=headers, request=httpx.Request("POST", "https://api.test"))
    kind = {429: openai.RateLimitError}.get(status, openai.APIStatusError)
    return kind("m", response=response, body=body)


def test_reads_the_wait_of_a_rate_limited_account():
    limited = openai_error(429, {"code": "rate_limit_exceeded", "type": "tokens"}, {"retry-after": "9"})
    assert classify(limited) == Classification("rate_limited", 9)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "server"),
        ("api_error", "server"),
        ("rate_limit_error", "rate_limited"),
        ("timeout_error", "timeout"),
        ("authentication_error", "auth"),
        ("invalid_request_error", "invalid_input"),
    ],
)
def test_classifies_an_error_in_a_stream_of_anthropic(http_server, url, of_anthropic, kind, expected):
    body = {"type": "error", "error": {"type": kind, "message": "m"}}
    http_server.stream = f"event: error\ndata: {json.dumps(body)}\n\n"
    error = raised(of_anthropic, f"{url}/stream", stream=True)
    assert isinstance(error, anthropic.APIStatusError)
    assert error.status_code == 200
    assert classify(error) == Classification(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"type": "server_error", "code": None, "message": "m"}, "server"),
        ({"type": "tokens", "code": "rate_limit_exceeded", "message": "m"}, "rate_limited"),
        ({"type": "insufficient_quota", "code": "insufficient_quota", "message": "m"}, "rate_limited"),
        ({"type": "invalid_request_error", "code": "context_length_exceeded", "message": "m"}, "invalid_input"),
        ({"type": "something_new", "code": None, "message": "m"}, "unknown"),
        ({"code": "502", "message": "m"}, "server"),
        ({"code": "503", "message": "m"}, "server"),
        ({"code": "429", "message": "m"}, "rate_limited"),
        ({"code": 429, "message": "m"}, "rate_limited"),
        ({"code": "400", "message": "m"}, "invalid_input"),
        ({"type": "server_error", "code": "999", "message": "m"}, "server"),
        ({"code": "200", "message": "m"}, "unknown"),
    ],
)
def test_classifies_an_error_in_a_stream_of_openai(http_server, url, of_openai, body, expected):
    http_server.stream = f"data: {json.dumps({'error': body})}\n\n"
    error = raised(of_openai, f"{url}/stream", stream=True)
    assert type(error) is openai.APIError
    assert classify(error) == Classification(expected)
