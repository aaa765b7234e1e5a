"""Real gRPC calls, both stacks, against a real server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from hypothesis import given
from hypothesis import strategies as st

from switchgear.classify import Classification, classify
from switchgear.classify.grpc import _in_status


def _message(name, *fields):
    """A message type of google.rpc, which no installed package has."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="google.rpc", syntax="proto3")
    file.dependency.extend(["google/protobuf/any.proto", "google/protobuf/duration.proto"])
    made = file.message_type.add(name=name)
    for number, field, kind, repeated, of in fields:
        made.field.add(
            name=field,
            number=number,
            type=kind,
            label=3 if repeated else 1,
            type_name=of,
        )
    pool = descriptor_pool.DescriptorPool()
    for dependency in (any_pb2, duration_pb2):
        pool.AddSerializedFile(dependency.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"google.rpc.{name}"))


RetryInfo = _message("RetryInfo", (1, "retry_delay", 11, False, ".google.protobuf.Duration"))
Status = _message(
    "Status",
    (1, "code", 5, False, None),
    (2, "message", 9, False, None),
    (3, "details", 11, True, ".google.protobuf.Any"),
)


def details(seconds, nanos=0):
    info = RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    status = Status(code=8, message="slow down")
    status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\x0a\x01x")
    status.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=info.SerializeToString())
    return status.SerializeToString()


def _answer(request, context):
    """The request says which code to end with, and with which trailing metadata."""
    code, _, trailing = request.decode().partition(" ")
    if code == "SLEEP":
        while context.is_active():
            time.sleep(0.01)
        return b""
    if trailing == "odd-pushback":
        context.set_trailing_metadata((("grpc-retry-pushback-ms", "9" * 400),))
    elif trailing == "pushback":
        context.set_trailing_metadata((("grpc-retry-pushback-ms", "1500"),))
    elif trailing == "retry-info":
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
    server.stop(0).wait(10)


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


def test_every_code_of_grpc_has_its_class():
    assert set(EXPECTED) == {code.name for code in grpc.StatusCode} - {"OK"}


@pytest.mark.parametrize(("code", "expected"), EXPECTED.items())
async def test_a_code_over_the_wire(address, code, expected):
    assert classify(raised(address, code)) == Classification(expected)
    assert classify(await raised_async(address, code)) == Classification(expected)


@pytest.mark.parametrize(
    ("trailing", "wait"),
    [("pushback", 1.5), ("retry-info", 12.5), ("garbage", None), ("odd-pushback", None), ("", None)],
)
async def test_the_wait_the_server_asks_for(address, trailing, wait):
    request = f"RESOURCE_EXHAUSTED {trailing}"
    assert classify(raised(address, request)) == Classification("rate_limited", wait)
    assert classify(await raised_async(address, request)) == Classification("rate_limited", wait)


async def test_a_deadline_and_a_server_that_is_not_there(address, nobody):
    assert classify(raised(address, "SLEEP", timeout=0.2)).error_class == "timeout"
    gone = nobody.removeprefix("http://")
    assert classify(raised(gone, "x", timeout=5)).error_class == "transport"
    assert classify(await raised_async(gone, "x", timeout=5)).error_class == "transport"


def test_futures_of_grpc():
    assert classify(grpc.FutureTimeoutError()).error_class == "timeout"
    assert classify(grpc.FutureCancelledError()).error_class == "cancelled"


def test_an_rpc_error_without_a_code_is_unknown():
    assert classify(grpc.RpcError()).error_class == "unknown"


class OverloadedError(grpc.RpcError):
    """As gRPC's own, with metadata that gRPC's own server can't be made to send."""

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
        (("grpc-retry-pushback-ms", b"\xff"),),
        (("grpc-retry-pushback-ms", 5),),
        (("alone",),),
        5,
        RuntimeError("no metadata yet"),
    ],
    ids=repr,
)
def test_metadata_that_can_not_be_read_costs_no_class(trailing):
    assert classify(OverloadedError(trailing)) == Classification("rate_limited")


@given(st.binary(max_size=200))
def test_no_bytes_upset_the_reader_of_details(data):
    assert _in_status(data) is None or _in_status(data) >= 0


@given(st.integers(0, 10**9), st.integers(0, 999_999_999), st.data())
def test_details_are_read_as_written_and_cut_ones_not_at_all(seconds, nanos, data):
    whole = details(seconds, nanos)
    assert _in_status(whole) == pytest.approx(seconds + nanos / 1e9)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert _in_status(cut) is None or _in_status(cut) >= 0
