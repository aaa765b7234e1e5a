"""Errors of real gRPC calls of both stacks are classified by their status code."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from switchgear.classify import Classification, classify
from tests.support.limits import ANSWER_S


def details(seconds, nanos=0):
    """Return the details of a status, as a server with grpcio-status sends them."""
    error_details_pb2 = pytest.importorskip("google.rpc.error_details_pb2", reason="needs grpcio-status")
    from google.rpc import status_pb2  # noqa: PLC0415 - optional

    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    status = status_pb2.Status(code=8, message="slow down")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="x"))
    status.details.add().Pack(info)
    return status.SerializeToString()


def _answer(request, context):
    """End with the code and the trailing metadata that the request names."""
    code, _, trailing = request.decode().partition(" ")
    if code == "SLEEP":
        while context.is_active():
            time.sleep(0.01)
        return b""
    if trailing == "retry-info":
        context.set_trailing_metadata((("grpc-status-details-bin", details(12, 500_000_000)),))
    elif trailing == "garbage":
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x1a\xff\xff\xff"),))
    return context.abort(grpc.StatusCode[code], "as asked")


@pytest.fixture(scope="module")
def address():
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(_answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", {"Call": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait(ANSWER_S)


def raised(address, request, timeout=20):
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as found:
        channel.unary_unary("/t.T/Call")(request.encode(), timeout=timeout)
    return found.value


async def raised_async(address, request, timeout=20):  # noqa: ASYNC109 - gRPC's own
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await channel.unary_unary("/t.T/Call")(request.encode(), timeout=timeout)
    return found.value


EXPECTED = {
    "CANCELLED": "cancelled",
    "UNKNOWN": "unknown",
    "INVALID_ARGUMENT": "invalid_input",
    "DEADLINE_EXCEEDED": "timeout",
    "NOT_FOUND": "invalid_input",
    "ALREADY_EXISTS": "invalid_input",
    "PERMISSION_DENIED": "auth",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "FAILED_PRECONDITION": "invalid_input",
    "ABORTED": "tool",
    "OUT_OF_RANGE": "invalid_input",
    "UNIMPLEMENTED": "server",
    "INTERNAL": "server",
    "UNAVAILABLE": "transport",
    "DATA_LOSS": "server",
    "UNAUTHENTICATED": "auth",
}


def test_expected_classes_cover_every_status_code():
    assert set(EXPECTED) == {code.name for code in grpc.StatusCode} - {"OK"}


@pytest.mark.parametrize(("code", "expected"), EXPECTED.items())
async def test_classifies_every_status_code(address, code, expected):
    assert classify(raised(address, code)) == Classification(expected)
    assert classify(await raised_async(address, code)) == Classification(expected)


@pytest.mark.parametrize("trailing", ["garbage", ""])
async def test_asks_for_no_wait_without_readable_metadata(address, trailing):
    request = f"RESOURCE_EXHAUSTED {trailing}"
    assert classify(raised(address, request)) == Classification("rate_limited")
    assert classify(await raised_async(address, request)) == Classification("rate_limited")


async def test_reads_retry_info_over_the_wire(address):
    details(1)  # skips without grpcio-status
    assert classify(raised(address, "UNAVAILABLE retry-info")) == Classification("transport", 12.5)
    assert classify(await raised_async(address, "UNAVAILABLE retry-info")) == Classification("transport", 12.5)


@pytest.mark.slow
async def test_deadline_is_timeout_and_missing_server_is_transport(address, unreachable):
    assert classify(raised(address, "SLEEP", timeout=0.2)).error_class == "timeout"
    gone = unreachable.removeprefix("http://")
    assert classify(raised(gone, "x", timeout=5)).error_class == "transport"
    assert classify(await raised_async(gone, "x", timeout=5)).error_class == "transport"


def test_classifies_errors_of_grpc_futures():
    assert classify(grpc.FutureTimeoutError()).error_class == "timeout"
    assert classify(grpc.FutureCancelledError()).error_class == "cancelled"


def test_rpc_error_without_a_code_is_unknown():
    assert classify(grpc.RpcError()).error_class == "unknown"


class OverloadedError(grpc.RpcError):
    """An RpcError with metadata that a gRPC server doesn't send."""

    def __init__(self, trailing):
        self._trailing = trailing

    def code(self):
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def trailing_metadata(self):
        if isinstance(self._trailing, Exception):
            raise self._trailing
        return self._trailing


@pytest.mark.parametrize(
    "trailing",
    [
        (("grpc-status-details-bin", "text"),),
        (("alone",),),
        5,
        RuntimeError("no metadata yet"),
    ],
    ids=repr,
)
def test_unreadable_metadata_does_not_change_the_class(trailing):
    assert classify(OverloadedError(trailing)) == Classification("rate_limited")


@pytest.mark.parametrize(("seconds", "nanos", "wait"), [(12, 500_000_000, 12.5), (0, 0, 0.0), (-5, 0, 0.0)])
def test_reads_the_wait_in_retry_info(seconds, nanos, wait):
    trailing = (("grpc-status-details-bin", details(seconds, nanos)),)
    assert classify(OverloadedError(trailing)) == Classification("rate_limited", wait)


def test_status_without_retry_info_asks_for_no_wait():
    whole = details(12)
    for size in (0, 1, len(whole) // 2):
        trailing = (("grpc-status-details-bin", whole[:size]),)
        assert classify(OverloadedError(trailing)) == Classification("rate_limited")


def test_ignores_retry_info_without_grpcio_status(monkeypatch):
    trailing = (("grpc-status-details-bin", details(12)),)
    monkeypatch.setitem(sys.modules, "google.rpc", None)
    assert classify(OverloadedError(trailing)) == Classification("rate_limited")
