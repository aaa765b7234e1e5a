"""Exceptions that wrap others are classified: groups, causes, the last attempt of a retry."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.error

import anyio
import grpc
import httpx
import pytest
import requests
import tenacity

from switchgear.classify import Classification, classify
from switchgear.classify.classify import MAX_MEMBERS
from switchgear.guard.rejections import Rejection
from tests.support.table import table


def limited(seconds):
    request = httpx.Request("GET", "https://api.test")
    response = httpx.Response(429, headers={"retry-after": str(seconds)}, request=request)
    return httpx.HTTPStatusError("x", request=request, response=response)


@table(
    ("members", "expected"),
    [
        ([ConnectionResetError()], "transport"),
        ([ValueError(), ConnectionResetError()], "transport"),
        ([RuntimeError(), TimeoutError()], "timeout"),
        ([ValueError(), RuntimeError()], "unknown"),
        ([PermissionError(), ValueError()], "auth"),
        ([ValueError()], "invalid_input"),
        ([asyncio.CancelledError()], "cancelled"),
        ([asyncio.CancelledError(), ValueError()], "invalid_input"),
        ([ExceptionGroup("", [ValueError(), ExceptionGroup("", [TimeoutError()])]), RuntimeError()], "timeout"),
    ],
    ids=repr,
)
def test_group_has_the_class_of_its_most_significant_member(members, expected):
    for order in itertools.permutations(members):
        assert classify(BaseExceptionGroup("", list(order))) == Classification(expected)


def test_longest_wait_of_a_group_counts():
    assert classify(ExceptionGroup("", [limited(3), limited(8), limited(5)])) == Classification("rate_limited", 8)


async def test_classifies_the_group_of_an_anyio_task_group():
    async def down():
        raise httpx.ConnectError("x")

    async def all_together():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(down)
            tasks.start_soon(anyio.sleep, 20)

    with pytest.raises(ExceptionGroup) as found:
        await all_together()
    assert classify(found.value) == Classification("transport")


def test_looks_at_a_bounded_part_of_a_huge_group():
    assert classify(ExceptionGroup("", [ValueError()] * 100_000)).error_class == "invalid_input"
    hidden = [ValueError()] * MAX_MEMBERS + [TimeoutError()]
    assert classify(ExceptionGroup("", hidden)).error_class == "invalid_input"
    deep: Exception = TimeoutError()
    for _ in range(100):
        deep = ExceptionGroup("", [deep])
    assert classify(deep).error_class == "unknown"


def raised_from(outer, cause):
    try:
        raise outer from cause
    except type(outer) as error:
        return error


class ToolFailedError(Exception):
    """A tool's own type of unknown class."""


def test_exception_of_unknown_class_has_the_class_of_its_cause():
    assert classify(raised_from(ToolFailedError(), TimeoutError())) == Classification("timeout")
    assert classify(raised_from(ToolFailedError(), limited(4))) == Classification("rate_limited", 4)
    twice = raised_from(ToolFailedError(), raised_from(ToolFailedError(), ConnectionResetError()))
    assert classify(twice) == Classification("transport")


def test_cause_that_does_not_count_excuses_nothing():
    for harmless in (ValueError(), PermissionError(), KeyboardInterrupt(), asyncio.CancelledError()):
        assert classify(raised_from(ToolFailedError(), harmless)) == Classification("unknown")


def answered(status):
    request = httpx.Request("GET", "https://api.test")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


class EndedCallError(grpc.RpcError):
    def __init__(self, code):
        self._code = code

    def code(self):
        return self._code


@table(
    ("cause", "expected"),
    [
        (answered(404), "invalid_input"),
        (answered(401), "auth"),
        (EndedCallError(grpc.StatusCode.INVALID_ARGUMENT), "invalid_input"),
        (EndedCallError(grpc.StatusCode.CANCELLED), "cancelled"),
        (Rejection(tool="inner", state="open", source="local").error(), "policy"),
        (ExceptionGroup("", [answered(404), answered(422)]), "invalid_input"),
    ],
    ids=repr,
)
def test_cause_that_carries_a_status_or_code_decides(cause, expected):
    assert classify(raised_from(ToolFailedError(), cause)) == Classification(expected)
    twice = raised_from(ToolFailedError(), raised_from(ToolFailedError(), cause))
    assert classify(twice) == Classification(expected)


def test_group_with_an_unknown_member_counts():
    for members in itertools.permutations([answered(404), ValueError()]):
        assert classify(raised_from(ToolFailedError(), ExceptionGroup("", list(members)))) == Classification("unknown")


class BadAnswerError(ValueError):
    """A tool's own type of class invalid_input."""


@table("mistake", [ValueError, TypeError, BadAnswerError])
@table(
    ("cause", "expected"),
    [
        (requests.ConnectionError(), "transport"),
        (httpx.ReadTimeout("x"), "timeout"),
        (answered(503), "server"),
        (ConnectionRefusedError(), "transport"),
    ],
    ids=repr,
)
def test_value_error_from_an_outage_of_a_client_is_that_outage(mistake, cause, expected):
    assert classify(raised_from(mistake("no forecast"), cause)) == Classification(expected)


def test_value_error_from_a_builtin_exception_stays_invalid_input():
    with pytest.raises(ValueError, match="Expecting") as not_json:
        json.loads("{")
    for cause in (not_json.value, FileNotFoundError(), answered(404), KeyError("x"), asyncio.CancelledError()):
        assert classify(raised_from(ValueError("bad argument"), cause)) == Classification("invalid_input")


def test_known_type_decides_before_its_cause():
    assert classify(raised_from(ValueError(), TimeoutError())) == Classification("invalid_input")


def of_library(library, name):
    return type(name, (Exception,), {"__module__": f"{library}.exceptions"})("x")


@table("kind", [("fastmcp", "ToolError"), ("langchain_core", "ToolException"), ("pydantic_ai", "ModelRetry")], ids=str)
@table(
    ("cause", "expected"),
    [
        (limited(4), Classification("rate_limited", 4)),
        (TimeoutError(), Classification("timeout")),
        (ConnectionResetError(), Classification("transport")),
        (raised_from(ToolFailedError(), httpx.ConnectError("x")), Classification("transport")),
        (Rejection(tool="inner", state="open", source="local").error(), Classification("policy")),
    ],
    ids=repr,
)
def test_tool_error_of_a_framework_raised_from_an_outage_or_a_refusal_is_that(kind, cause, expected):
    assert classify(raised_from(of_library(*kind), cause)) == expected


@pytest.mark.parametrize(
    "cause", [KeyError("x"), ValueError(), json.JSONDecodeError("x", "{", 0), answered(404)], ids=repr
)
def test_tool_error_of_a_framework_raised_from_something_else_has_class_tool(cause):
    assert classify(raised_from(of_library("fastmcp", "ToolError"), cause)) == Classification("tool")


def test_context_of_an_exception_is_not_its_cause():
    error = ToolFailedError()
    error.__context__ = TimeoutError()
    assert classify(error) == Classification("unknown")


def test_cycle_of_causes_ends():
    one, other = ToolFailedError(), ToolFailedError()
    one.__cause__, other.__cause__ = other, one
    assert classify(one) == Classification("unknown")
    ring = urllib.error.URLError("x")
    ring.reason = ring
    assert classify(ring) == Classification("transport")


def test_last_attempt_of_tenacity_decides():
    @tenacity.retry(stop=tenacity.stop_after_attempt(2))
    def down():
        raise httpx.ReadTimeout("x")

    with pytest.raises(tenacity.RetryError) as found:
        down()
    assert classify(found.value) == Classification("timeout")
