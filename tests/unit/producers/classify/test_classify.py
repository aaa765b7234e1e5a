"""Exceptions are classified by what they carry and by their type."""

from __future__ import annotations

import asyncio
import concurrent.futures
import email.utils
import errno
import json
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
from types import SimpleNamespace
from typing import get_args

import grpc
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear import CallTimeoutError
from switchgear.classify import IGNORE, Classification, classify
from switchgear.classify.waits import of_error
from switchgear.guard.rejections import Rejection
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_schemas.execution import ErrorClass
from tests.support.limits import READY_S
from tests.support.table import table


def foreign(module: str, name: str, *bases: type[BaseException], **fields) -> BaseException:
    """Return an exception of a library that need not be installed."""
    made = type(name, bases or (Exception,), {"__module__": module})("message")
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def answered(status: int, headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://api.test")
    return httpx.HTTPStatusError(
        "x", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


@table(
    ("error", "expected"),
    [
        (TimeoutError(), "timeout"),
        (concurrent.futures.TimeoutError("x"), "timeout"),
        (ConnectionRefusedError(), "transport"),
        (ConnectionResetError(), "transport"),
        (BrokenPipeError(), "transport"),
        (socket.gaierror(), "transport"),
        (ssl.SSLError(), "transport"),
        (OSError(errno.ENETUNREACH, "x"), "transport"),
        (EOFError(), "transport"),
        (FileNotFoundError(), "invalid_input"),
        (PermissionError(), "auth"),
        (ValueError(), "invalid_input"),
        (TypeError(), "invalid_input"),
        (json.JSONDecodeError("x", "", 0), "server"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), "server"),
        (KeyError("x"), "unknown"),
        (RuntimeError(), "unknown"),
        (Exception(), "unknown"),
        (asyncio.CancelledError(), "cancelled"),
        (concurrent.futures.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (SystemExit(), "cancelled"),
        (httpx.ReadTimeout("x"), "timeout"),
        (httpx.ConnectTimeout("x"), "timeout"),
        (httpx.ConnectError("x"), "transport"),
        (httpx.RemoteProtocolError("x"), "transport"),
        (foreign("requests.exceptions", "Timeout", OSError), "timeout"),
        (foreign("requests.exceptions", "ConnectionError", OSError), "transport"),
        (foreign("aiohttp.client_exceptions", "ServerTimeoutError", TimeoutError), "timeout"),
        (foreign("aiohttp.client_exceptions", "ClientConnectionError"), "transport"),
        (foreign("trio", "Cancelled", BaseException), "cancelled"),
        (foreign("my.tools", "Timeout"), "unknown"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{type(value).__module__}.{type(value).__qualname__}",
)
def test_builtin_type_has_its_class(error, expected):
    assert classify(error) == Classification(expected)


def test_subclass_has_the_class_of_its_nearest_known_base():
    class Slow(httpx.ReadTimeout):
        pass

    assert classify(Slow("x")).error_class == "timeout"


@table(
    ("status", "expected"),
    [
        (400, "invalid_input"),
        (401, "auth"),
        (403, "auth"),
        (404, "invalid_input"),
        (408, "timeout"),
        (422, "invalid_input"),
        (429, "rate_limited"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (504, "timeout"),
        (599, "server"),
    ],
)
def test_status_decides_before_the_type(status, expected):
    assert classify(answered(status)).error_class == expected


@pytest.mark.parametrize(
    "error",
    [
        foreign("requests.exceptions", "HTTPError", OSError, response=SimpleNamespace(status_code=503, headers={})),
        foreign("aiohttp.client_exceptions", "ClientResponseError", status=503, headers={}),
        foreign("openai", "InternalServerError", status_code=503),
        urllib.error.HTTPError("https://api.test", 503, "x", None, None),  # type: ignore[arg-type]
    ],
    ids=["requests", "aiohttp", "openai", "urllib"],
)
def test_finds_the_status_of_every_library(error):
    assert classify(error).error_class == "server"
    if hasattr(error, "close"):
        error.close()


def test_number_that_is_not_a_status_decides_nothing():
    assert classify(foreign("my.tools", "Failure", code=7)).error_class == "unknown"
    assert classify(foreign("my.tools", "Failure", status=True)).error_class == "unknown"
    assert classify(foreign("my.tools", "Failure", status_code="500")).error_class == "unknown"


@pytest.mark.parametrize("status", [429, 503])
def test_reads_the_wait_of_a_limited_or_overloaded_tool(status):
    assert classify(answered(status, {"Retry-After": "17"})).retry_after_s == 17


def test_ignores_the_wait_of_another_status():
    assert classify(answered(500, {"Retry-After": "17"})).retry_after_s is None


def test_reads_a_wait_until_an_http_date():
    later = email.utils.formatdate(time.time() + 30, usegmt=True)
    found = classify(answered(429, {"retry-after": later})).retry_after_s
    assert found is not None
    assert 27 <= found <= 31


def test_date_in_the_past_is_a_wait_of_zero():
    assert of_error(answered(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})) == 0


@pytest.mark.parametrize("value", ["soon", "", "-5"])
def test_unreadable_wait_is_none(value):
    assert of_error(answered(429, {"Retry-After": value})) is None


def test_reads_the_attribute_retry_after():
    assert of_error(foreign("discord", "RateLimited", retry_after=2.5)) == 2.5


@pytest.mark.slow
def test_classify_imports_no_library():
    code = """
import sys
from switchgear.classify import classify, classify_result
for module, name in (("requests.exceptions", "Timeout"), ("botocore.exceptions", "ReadTimeoutError"),
                     ("grpc", "RpcError"), ("mcp", "MCPError"), ("openai", "APIError")):
    classify(type(name, (Exception,), {"__module__": module})())
classify_result({"content": [], "isError": True})
heavy = {"aiohttp", "anthropic", "botocore", "grpc", "httpx", "mcp", "openai", "redis", "requests", "urllib3"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S)
    assert done.stdout.split() == ["[]"]


def test_classifies_errors_of_subprocess_and_sqlite():
    with pytest.raises(subprocess.TimeoutExpired) as slow:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(20)"], timeout=0.05, check=True)
    assert classify(slow.value).error_class == "timeout"
    assert classify(subprocess.CalledProcessError(1, "x")).error_class == "tool"
    assert classify(sqlite3.IntegrityError("x")).error_class == "invalid_input"
    assert classify(sqlite3.OperationalError("x")).error_class == "unknown"


def test_refusal_of_another_tool_has_class_policy():
    assert classify(Rejection(tool="inner", state="open", source="local").error()).error_class == "policy"
    assert classify(BrokerUnavailableError("x")).error_class == "transport"
    assert classify(CallTimeoutError("inner", 1.0)).error_class == "timeout"


@pytest.mark.parametrize("library", ["llama_index", "workflows"])
def test_step_of_llama_index_that_waits_for_an_event_has_class_policy(library):
    waiting = type("WaitingForEvent", (Exception,), {"__module__": f"{library}.runtime.types.results"})
    assert classify(waiting("x")) == IGNORE


def test_exception_whose_message_can_not_be_read_has_the_class_of_its_type():
    class UnreadableError(ValueError):
        def __str__(self):
            raise RuntimeError("no text")

    assert classify(UnreadableError()).error_class == "invalid_input"


class SpitefulError(Exception):
    """An exception whose attributes raise."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise RuntimeError(name)


def test_exception_whose_attributes_raise_has_class_unknown():
    assert classify(SpitefulError()).error_class == "unknown"


def test_failure_of_the_classifier_is_logged_once_a_minute_and_gives_unknown(caplog):
    class LyingError(grpc.RpcError):
        def code(self):
            raise RuntimeError("no code")

    for _ in range(5):
        assert classify(LyingError()).error_class == "unknown"
    assert caplog.text.count("could not classify LyingError: RuntimeError: no code") == 1


def test_headers_that_raise_do_not_change_the_class():
    assert classify(foreign("my.tools", "Limited", status_code=429, retry_after=10**400)) == Classification(
        "rate_limited"
    )


@pytest.mark.slow
@given(
    fields=st.dictionaries(
        st.sampled_from(["response", "status", "status_code", "code", "body", "type", "retry_after", "headers", "sqlstate", "reason", "error"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
        | st.dictionaries(st.sampled_from(["Error", "ResponseMetadata", "get"]), st.none() | st.dictionaries(st.sampled_from(["Code", "HTTPStatusCode", "HTTPHeaders"]), st.integers() | st.text(max_size=3))),
        max_size=5,
    ),
    module=st.sampled_from(["builtins", "grpc", "mcp", "botocore", "openai", "urllib3", "sqlalchemy", "tenacity", "psycopg"]),
)  # fmt: skip
def test_classify_never_raises(fields, module):
    found = classify(foreign(module, "OddError", **fields))
    assert found.error_class in get_args(ErrorClass)
    assert found.retry_after_s is None or 0 <= found.retry_after_s < float("inf")


# -- a class that the exception names itself ----------------------------------------------------------------------------


class OursError(ConnectionError):
    """An exception of Switchgear that knows its class."""

    switchgear_class = IGNORE


def test_the_class_that_our_own_exception_names_goes_before_its_type():
    assert classify(OursError("x")) == IGNORE


def test_the_class_that_our_own_exception_names_decides_for_what_is_raised_from_it():
    for wrapper in (RuntimeError("failed"), foreign("fastmcp.exceptions", "ToolError")):
        wrapper.__cause__ = OursError("x")
        assert classify(wrapper) == IGNORE


@table("named", ["policy", "timeout", Classification, ("policy", None), object(), 7, None])
def test_what_is_no_classification_in_that_attribute_says_nothing(named):
    assert classify(foreign("a_library", "DownError", ConnectionError, switchgear_class=named)) == Classification(
        "transport"
    )


def test_an_exception_that_fails_when_it_is_asked_for_its_class_is_unknown():
    class BrokenError(ConnectionError):
        @property
        def switchgear_class(self):
            raise RecursionError("again and again")

    assert classify(BrokenError()) == Classification("unknown")
