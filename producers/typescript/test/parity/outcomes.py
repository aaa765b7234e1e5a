"""How a call ended: the class of a status, a text and a result, and how long a server asks to wait."""

# ruff: noqa: INP001 - a part of a script

from __future__ import annotations

from typing import Any

from switchgear.classify.by_code import _MCP, class_of_status
from switchgear.classify.result import classify_result, outage_in_text
from switchgear.classify.tool_failure import META_KEY, is_refusal
from switchgear.classify.waits import from_headers, in_data

TEXTS = [
    "HTTP Error 503: Service Unavailable",
    "connect ECONNREFUSED 127.0.0.1:80",
    "fetch failed",
    "fetch failed: bad request",
    "no such city",
    "Rate limit exceeded",
    "429 Client Error: Too Many",
    "Request failed with status code 502",
    "the read operation timed out",
    "TimeoutError",
    "a TimeoutError happened in their code",
    "httpx.ConnectError: all",
    "MCP error -32000: Connection closed",
    "504 Gateway Time-out",
    "Error code: 500 - {}",
    "The tool x is unavailable (circuit open). Do not call it now.",
    "Error: The tool x is recovering, and only some calls are let through. This one was not.",
    "getaddrinfo ENOTFOUND example.com",
    "Your last 3 calls of x were rejected: bad. Change the arguments or use another tool.",
    "timeout of 1000ms exceeded",
    "connection reset by peer",
    "KeyError: 'x'",
    "Server disconnected",
    "upstream: 502 from upstream",
]
RESULTS: list[Any] = [
    {"content": [{"type": "text", "text": "x"}], "isError": True},
    {"content": [], "isError": False},
    {"content": "timed out", "is_error": True},
    {"isError": True},
    {"resultType": "input_required"},
    "text",
    None,
    [1],
    {"content": [{"type": "text", "text": "503 Service Unavailable"}, {"type": "image"}], "isError": True},
    *[
        {"content": [], "isError": True, "_meta": {META_KEY: failure}}
        for failure in [
            {"class": "reliability", "code": "circuit_open"},
            {"class": "reliability", "code": "x"},
            {"class": "capability", "code": "invalid_input"},
            {"class": "capability", "code": "no"},
            {"class": "governance", "code": "auth_required"},
            {"class": "governance", "code": "quota"},
            {"class": "other", "code": "x"},
            {"class": 1, "code": "x"},
            "text",
        ]
    ],
]
HEADERS = [
    {"Retry-After": "7"},
    {"retry-after": "1.5"},
    {"retry-after-ms": "250", "Retry-After": "9"},
    {"Retry-After": "-1"},
    {"Retry-After": "soon"},
    {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"},
    {"Retry-After": "Wed, 21 Oct 2015 07:28:20 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"},
    {"Retry-After": "Wed Oct 21 07:28:00 2015"},
    {"Retry-After": "999999999"},
    *({"Retry-After": value} for value in ("nan", "0x10", "1e309", "1_0", "9" * 400, "1h" * 60, "", "1445412500")),
    *({"x-ratelimit-reset-requests": value} for value in ("6m0s", "20ms", "2m59.56s", "1h2m3s", "1d", "6m 0s", "m")),
    {"X-RateLimit-Reset": "1445412515"},
    {"x-rate-limit-reset": "1445412515000"},
    {"x-ratelimit-reset": "45", "x-ratelimit-remaining": "9"},
    {"X-RateLimit-Reset": "1445412471.5", "X-RateLimit-Reset-After": "1.5", "X-RateLimit-Remaining": "0"},
    {"anthropic-ratelimit-requests-reset": "2015-10-21T07:28:10Z"},
    {"anthropic-ratelimit-tokens-reset": "2015-10-21T09:28:10.5+02:00"},
    {"anthropic-priority-input-tokens-reset": "2015-10-21T07:28:10"},
    {"anthropic-ratelimit-requests-reset": "2015-13-21T07:28:10Z"},
    {"ratelimit-reset": "30"},
    {"RateLimit": "limit=100, remaining=0, reset=30"},
    {"RateLimit": '"default";r=0;t=30'},
    {"RateLimit": '"day";r=0;t=40, "hour"; r=5; t=900'},
    {"RateLimit": '"default";r=0;t='},
    {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "2s"},
    {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-tokens": "2s"},
    {"x-ratelimit-resettime": "30", "x-password-reset": "30"},
    {},
]
_RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}
ASKED = [
    {"error": {"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.Help"}, _RETRY_INFO]}},
    [{"error": {"details": [_RETRY_INFO]}}],
    {"retryDelay": "37s"},
    {"retry_after": 3},
    {"retryAfter": "3"},
    {"retry-after-seconds": 3},
    {"retryAfterMs": 1500},
    {"retry_after": "later", "error": {"retry_after": 4}},
    {"retry_after": True},
    {"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1445412515000"}}}},
    {"a": {"a": {"a": {"a": {"a": {"retry_after": 3}}}}}},
    {"a": {"a": {"a": {"a": {"a": {"a": {"retry_after": 3}}}}}}},
    [*([{}] * 20), {"retry_after": 3}],
    "retry_after",
    None,
]


def answers() -> dict[str, Any]:
    """Return the classes and the waits."""
    return {
        "statuses": [[status, class_of_status(status)] for status in range(300, 600)],
        "mcp": [[code, error_class] for code, error_class in sorted(_MCP.items()) if code < 0],
        "texts": [[text, outage_in_text(text), is_refusal(text)] for text in TEXTS],
        "results": [
            [result, _class(classify_result(result)), _class(classify_result(result, by_text=outage_in_text))]
            for result in RESULTS
        ],
        "headers": [[headers, from_headers(headers, now=lambda: 1_445_412_470.0)] for headers in HEADERS],
        "asked": [[data, in_data(data, now=lambda: 1_445_412_470.0)] for data in ASKED],
    }


def _class(found: Any) -> str | None:
    return None if found is None else found.error_class
