"""The wait that an answer asks for is read in every form."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.classify import Classification, classify, classify_result, outage_in_text
from switchgear.classify.waits import from_headers, in_data, of_error, seconds_in
from switchgear_schemas.enums import LONGEST_WAIT_S
from tests.support.shared import shared_folder
from tests.support.table import table

NOW = 1_700_000_000.0
AT = email.utils.formatdate(NOW, usegmt=True)


def at(seconds):
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")


@table(
    ("headers", "expected"),
    [
        ({"Retry-After": "17"}, 17),
        ({"retry-after": "17"}, 17),
        ({"RETRY-AFTER": "17"}, 17),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": 3}, 3),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": email.utils.formatdate(NOW + 30, usegmt=True)}, 30),
        ({"retry-after": email.utils.formatdate(NOW - 30, usegmt=True)}, 0),
        ({"retry-after": str(int(NOW) + 40)}, 40),
        ({"retry-after": at(40)}, 40),
        ({"retry-after": "999999999"}, LONGEST_WAIT_S),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "0x10"}, None),
        ({"retry-after": "1e309"}, None),
        ({"retry-after": "1_0"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": b"5"}, None),
        ({b"retry-after": "5"}, None),
        ({"retry-after": True}, None),
        ({"retry-after": 10**400}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 23:14:20 +0100"}, 60),
        ({}, None),
        (None, None),
        ("retry-after: 4", None),
    ],
)
def test_reads_an_order_to_wait_in_headers(headers, expected):
    assert from_headers(headers, now=lambda: NOW) == expected


@table(
    ("headers", "expected"),
    [
        # OpenAI, Azure, Groq
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "2m59.56s"}, 179.56),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723),
        ({"x-ratelimit-reset-requests": "1d"}, 86_400),
        ({"x-ratelimit-reset-tokens": "500µs"}, 0.0005),
        # GitHub, X, Okta, OpenRouter
        ({"X-RateLimit-Reset": str(int(NOW) + 45)}, 45),
        ({"x-rate-limit-reset": str(int(NOW) + 45)}, 45),
        ({"X-RateLimit-Reset": str(int(NOW + 45) * 1000)}, 45),
        ({"x-ratelimit-reset": str(int(NOW) - 45)}, 0),
        # Discord
        ({"X-RateLimit-Reset": f"{NOW + 1.5}", "X-RateLimit-Reset-After": "1.5", "X-RateLimit-Remaining": "0"}, 1.5),
        # Anthropic
        ({"anthropic-ratelimit-requests-reset": at(20)}, 20),
        ({"anthropic-ratelimit-input-tokens-reset": at(20).replace("Z", "+00:00")}, 20),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW) + 20)}, 20),
        ({"anthropic-priority-input-tokens-reset": at(20)}, 20),
        # IETF, old and new
        ({"RateLimit-Reset": "30"}, 30),
        ({"RateLimit": "limit=100, remaining=0, reset=30"}, 30),
        ({"RateLimit": '"default";r=0;t=30'}, 30),
        ({"RateLimit": '"a,b"; t=30; r=0'}, 30),
        ({"RateLimit": '"default";r=0;pk=:dA==:;t=30'}, 30),
        # nothing to read
        ({"RateLimit": '"default";r=0'}, None),
        ({"RateLimit": '"default";r=0;t='}, None),
        ({"RateLimit": '"default";r=0;t=-3'}, None),
        ({"RateLimit": "30"}, None),
        ({"RateLimit-Policy": '"default";q=100;w=10'}, None),
        ({"x-ratelimit-reset-requests": "6m 0s"}, None),
        ({"x-ratelimit-reset-requests": "m"}, None),
        ({"x-ratelimit-resettime": "30"}, None),
        ({"x-password-reset": "30"}, None),
        ({"anthropic-ratelimit-requests-reset": "2026-02-31T00:00:00Z"}, None),
        ({"anthropic-ratelimit-requests-reset": "2026-11-28T12:00:60Z"}, None),
    ],
)
def test_reads_the_reset_of_a_limit_in_headers(headers, expected):
    found = from_headers(headers, now=lambda: NOW)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


@table(
    ("headers", "expected"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "7"}, 360),
        ({"x-ratelimit-remaining-requests": "7", "x-ratelimit-remaining-tokens": "0"}, 2),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "0"}, 360),
        ({"x-ratelimit-remaining-requests": "7", "x-ratelimit-remaining-tokens": "7"}, None),
        ({"x-ratelimit-remaining-requests": "7"}, 2),
        ({}, 2),
        ({"RateLimit": '"day";r=0;t=40, "hour";r=5;t=900'}, 40),
    ],
)
def test_the_limit_that_is_used_up_decides_and_else_the_shortest_that_may_be(headers, expected):
    resets = {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "2s"}
    assert from_headers(resets | headers, now=lambda: NOW) == expected


def test_an_order_to_wait_comes_before_the_reset_of_a_limit():
    limit = {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}
    assert from_headers(limit | {"retry-after": "5"}) == 5
    assert from_headers(limit | {"retry-after": "soon"}) == 360


def test_an_instant_is_measured_from_the_date_of_the_answer_and_not_by_a_wrong_clock():
    an_hour_behind = lambda: NOW - 3600  # noqa: E731
    headers = {"x-ratelimit-reset": str(int(NOW) + 45)}
    assert from_headers(headers, now=an_hour_behind) == 3645
    assert from_headers(headers | {"Date": AT}, now=an_hour_behind) == 45
    assert from_headers(headers | {"Date": "today"}, now=an_hour_behind) == 3645


@table(
    ("value", "expected"),
    [
        (timedelta(minutes=2), 120),
        (timedelta(minutes=-2), 0),
        (SimpleNamespace(seconds=12, nanos=500_000_000), 12.5),
        (SimpleNamespace(seconds="x", nanos=0), None),
        (1_700_000_030, 30),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_reads_a_wait_in_values_of_other_types(value, expected):
    assert seconds_in(value, lambda: NOW) == expected


@pytest.fixture
def in_new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "date",
    [
        "Tue Nov 14 22:14:20 2023",
        "Tue, 14 Nov 2023 22:14:20 -0000",
        "Tue, 14 Nov 2023 22:14:20",
        "2023-11-14T22:14:20",
        "2023-11-14 22:14:20.000",
    ],
)
def test_date_without_a_zone_is_utc(date, in_new_york):
    assert from_headers({"retry-after": date}, now=lambda: NOW) == 60


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}
OF_GOOGLE = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "x"}]},
            RETRY_INFO,
        ],
    }
}


def nested(depth, inner):
    for _ in range(depth):
        inner = {"a": inner}
    return inner


class Broken(Mapping):
    """A mapping whose every use fails."""

    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        return 1


@table(
    ("data", "expected"),
    [
        (OF_GOOGLE, 37),
        ([OF_GOOGLE], 37),
        ({"retryDelay": "37s"}, None),
        ({"details": [SimpleNamespace(retry_delay=SimpleNamespace(seconds=12, nanos=0))]}, 12),
        ({"details": [SimpleNamespace(retry_delay=timedelta(seconds=12))]}, 12),
        ({"retry_after": 3}, 3),
        ({"error": {"retryAfter": "3"}}, 3),
        ({"retry-after-seconds": 3}, 3),
        ({"retry_after_ms": 1500}, 1.5),
        ({"retryAfterMs": "1500"}, 1.5),
        ({"retry_after": "later", "error": {"retry_after": 4}}, 4),
        ({"retry_after": 1, "error": {"retry_after": 4}}, 1),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Reset": str(int(NOW + 45) * 1000)}}}}, 45),
        ({"headers": "retry-after: 4"}, None),
        ({"retry_after": {"a": 1}}, None),
        ({5: 6}, None),
        (nested(5, {"retry_after": 3}), 3),
        (nested(6, {"retry_after": 3}), None),
        (nested(900, {"retry_after": 3}), None),
        ([{"a": 1}] * 20 + [{"retry_after": 3}], None),
        ([[{"a": 1}] * 20] * 20 + [{"retry_after": 3}], None),
        (Broken(), None),
        ("retry_after: 3", None),
        (None, None),
    ],
)
def test_reads_the_wait_in_data(data, expected):
    assert in_data(data, now=lambda: NOW) == expected


def carrying(**fields):
    error = Exception("x")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


@table(
    ("fields", "expected"),
    [
        ({"retry_after": 2.5}, 2.5),
        ({"retry_after": 0}, 0),
        ({"retry_after": timedelta(seconds=7)}, 7),
        ({"retry_after": True}, None),
        ({"retry_after": -1}, None),
        ({"retry_after": float("inf")}, None),
        ({"retry_after": 10**400}, None),
        ({"retry_after": lambda: 3}, None),
        ({"headers": {"retry-after": "4"}}, 4),
        ({"response": SimpleNamespace(headers={"retry-after": "4"})}, 4),
        ({"response": SimpleNamespace(headers={"server": "x"}), "headers": {"retry-after": "5"}}, 5),
        ({"response": SimpleNamespace(headers=None), "headers": {"retry-after": "5"}}, 5),
        ({"response": SimpleNamespace(headers={}), "litellm_response_headers": {"retry-after": "6"}}, 6),
        ({"details": OF_GOOGLE}, 37),
        ({"details": lambda: "as gRPC has it"}, None),
        ({"body": OF_GOOGLE["error"]}, 37),
        ({"body": json.dumps(OF_GOOGLE)}, 37),
        ({"body": "[" * 19_000}, None),
        ({"body": '{"a":' * 3_000}, None),
        ({"response": {"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPHeaders": {"retry-after": "8"}}}}, 8),
        ({"headers": "retry-after: 4"}, None),
        ({"headers": Broken(), "body": Broken()}, None),
    ],
)
def test_reads_the_wait_of_exceptions(fields, expected):
    assert of_error(carrying(**fields)) == expected


class HostileError(Exception):
    """Each property fails."""

    status_code = 429

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_an_exception_that_can_not_be_read_keeps_its_class():
    error = carrying(status_code=429, headers=Broken(), response=SimpleNamespace(headers=Broken()))
    assert classify(error) == Classification("rate_limited")
    assert of_error(HostileError()) is None


def answered(status, headers):
    request = httpx.Request("GET", "https://api.test")
    return httpx.HTTPStatusError(
        "x", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


def test_the_wait_of_a_limit_goes_with_the_class_of_the_exception():
    limits = {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}
    assert classify(answered(429, limits)) == Classification("rate_limited", 360)
    assert classify(answered(429, {"RateLimit": '"default";r=0;t=30'})) == Classification("rate_limited", 30)
    assert classify(answered(503, {"x-ratelimit-reset": "900", "x-ratelimit-remaining": "4999"})) == Classification(
        "server"
    )
    assert classify(answered(500, limits)) == Classification("server")


def of_library(module, name, **fields):
    error = type(name, (Exception,), {"__module__": module})("slow down")
    for field, value in fields.items():
        setattr(error, field, value)
    return error


@table(
    ("error", "expected"),
    [
        (of_library("google.genai.errors", "ClientError", code=429, details=OF_GOOGLE, response=SimpleNamespace(headers={})), 37),
        (of_library("litellm.exceptions", "RateLimitError", status_code=429, litellm_response_headers={"retry-after": "6"}), 6),
        (of_library("pydantic_ai.exceptions", "ModelHTTPError", status_code=429, body=OF_GOOGLE), 37),
        (of_library("anthropic", "APIStatusError", body={}, type="rate_limit_error", headers={"retry-after": "5"}), 5),
        (of_library("google.adk.errors", "ToolExecutionError", error_type="TOO_MANY_REQUESTS", retry_after=5), 5),
        (of_library("botocore.exceptions", "ClientError", response={"Error": {"Code": "ThrottlingException"}}, retry_after=4), 4),
    ],
)  # fmt: skip
def test_a_limited_tool_of_each_framework_says_how_long(error, expected):
    assert classify(error) == Classification("rate_limited", expected)


def of_mcp(code, data):
    return of_library("mcp.shared.exceptions", "McpError", error=SimpleNamespace(code=code, message="m", data=data))


@table(
    ("code", "data", "expected"),
    [
        (-32603, {"status": 429, "retryAfter": 30}, Classification("rate_limited", 30)),
        (-32000, {"statusCode": 429}, Classification("rate_limited")),
        (-32050, {"http_status": 503, "headers": {"retry-after": "9"}}, Classification("server", 9)),
        (-32029, {"retry_after": 12}, Classification("rate_limited", 12)),
        (429, None, Classification("rate_limited")),
        (-32603, OF_GOOGLE, Classification("server")),
        (-32603, {"status": 404, "retry": 3}, Classification("server")),
        (-32050, {"status": True}, Classification("tool")),
        (-32050, {"tool": {"retry_after": 3}}, Classification("tool")),
        (-32602, {"status": 429, "retry_after": 3}, Classification("invalid_input")),
        (-32001, {"status": 429}, Classification("timeout")),
        (-32603, "retry_after", Classification("server")),
    ],
)
def test_an_mcp_error_says_in_its_data_that_the_server_is_limited(code, data, expected):
    assert classify(of_mcp(code, data)) == expected


def failed(text="slow down", **fields):
    return {"content": [{"type": "text", "text": text}], "isError": True} | fields


def test_a_failed_mcp_result_says_in_its_meta_that_the_server_is_limited():
    assert classify_result(failed(_meta={"status": 429, "retryAfterMs": 2500})) == Classification("rate_limited", 2.5)
    assert classify_result(failed(_meta={"retry_after": 9})) == Classification("rate_limited", 9)
    assert classify_result(failed(_meta={"status": 404})) == Classification("tool")
    assert classify_result(failed(_meta={"progressToken": 7})) == Classification("tool")
    assert classify_result({"content": [], "_meta": {"status": 429}}) is None, "it has not failed"


def test_structured_content_says_how_long_and_never_that_a_tool_has_an_outage():
    content = {"status": 429, "retry_after": 9, "error": OF_GOOGLE}
    assert classify_result(failed(structuredContent=content)) == Classification("tool")
    limited = failed("HTTP error 429", structuredContent=content)
    assert classify_result(limited, by_text=outage_in_text) == Classification("rate_limited", 9)
    of_sdk = type(
        "CallToolResult", (), {"is_error": True, "content": limited["content"], "structured_content": content}
    )()
    assert classify_result(of_sdk, by_text=outage_in_text) == Classification("rate_limited", 9)
    refused = failed("connection refused", structuredContent=content)
    assert classify_result(refused, by_text=outage_in_text) == Classification("transport")


def test_each_answer_of_the_public_reports_gets_its_wait():
    cases = json.loads((shared_folder() / "acceptance" / "found_2026_11.json").read_text())["cases"]
    limited = [case for case in cases if case["kind"] == "http_429"]
    assert len(limited) == 10
    for case in limited:
        now = datetime.fromisoformat(case["at"]).timestamp()
        found = from_headers(httpx.Headers(case["input"]["headers"]), now=lambda now=now: now)
        assert found == case["expect"]["retry_after_s"], case["name"]


def test_hostile_headers_are_read_within_bounds():
    many = {f"x-ratelimit-{number}-reset": "5" for number in range(10_000)}
    assert from_headers(many) == 5
    assert from_headers({"RateLimit": '"a";r=0;t=5,' * 100_000}) == 5
    assert from_headers({"x-ratelimit-" + "a-" * 500_000 + "reset": "5"}) is None
    assert from_headers({"retry-after": "1" * 1_000_000}) is None
    assert from_headers({"retry-after": "1h" * 500_000}) is None
    assert from_headers({"retry-after": "999d" * 20}) == LONGEST_WAIT_S


@pytest.mark.slow
@given(st.text(max_size=40))
def test_from_headers_never_raises(value):
    headers = {
        "retry-after": value,
        "retry-after-ms": value,
        "x-ratelimit-reset": value,
        "ratelimit": value,
        "date": value,
    }
    found = from_headers(headers, now=lambda: NOW)
    assert found is None or 0 <= found <= LONGEST_WAIT_S


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=10,
    )
)
def test_in_data_never_raises(data):
    found = in_data({"retry_after": data, "headers": data, "error": data}, now=lambda: NOW)
    assert found is None or 0 <= found <= LONGEST_WAIT_S
