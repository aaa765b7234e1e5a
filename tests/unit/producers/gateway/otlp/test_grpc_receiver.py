"""OTLP over gRPC, by the SDK's real exporter and by a plain client."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from switchgear_gateway.bodies import Budget
from switchgear_gateway.otlp import grpc_receiver as module
from switchgear_gateway.otlp.grpc_receiver import serving_otlp_grpc
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.parts import MAX_RECORDS
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SubmitResult
from switchgear_schemas.errors import SwitchgearError
from tests.support import limits
from tests.support.limits import ANSWER_S
from tests.unit.producers.gateway.otlp.support import TOOL, Kafka, empty_spans, log_request, sample, span_request
from tests.unit.producers.gateway.otlp.test_decoding import inside

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
def kafka():
    return Kafka()


@pytest.fixture
async def port(kafka):
    async def sender_of(headers):
        if headers.get("authorization") == "Bearer wrong":
            raise NotAllowedError("The token is unknown.", status=401)
        return Sender(kafka, client=headers.get("authorization", ""))

    async with serving_otlp_grpc(Ingest(), sender_of, "127.0.0.1:0") as listening:
        yield listening


@pytest.fixture
async def channel(port):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened


async def test_spans_are_taken(channel, kafka):
    answer = await TraceServiceStub(channel).Export(sample("agent_framework"), timeout=ANSWER_S)
    assert answer.partial_success.rejected_spans == 0
    assert len(kafka.acknowledged) == 3


async def test_logs_are_taken(channel, kafka):
    request = log_request("codex.tool_result", {"tool_name": "shell", "success": "true", "call_id": "c"})
    await LogsServiceStub(channel).Export(request, timeout=ANSWER_S)
    assert kafka.tools == ["shell"]


async def test_metrics_are_dropped_for_those_who_may_send(channel, kafka):
    stub = MetricsServiceStub(channel)
    assert await stub.Export(ExportMetricsServiceRequest(), timeout=ANSWER_S) == ExportMetricsServiceResponse()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stub.Export(ExportMetricsServiceRequest(), metadata=[("authorization", "Bearer wrong")], timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert kafka.acknowledged == []


async def test_calls_that_cannot_be_used_are_a_partial_success(channel):
    request = span_request({"id": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}})
    answer = await TraceServiceStub(channel).Export(request, timeout=ANSWER_S)
    assert answer.partial_success.rejected_spans == 1
    answer = await LogsServiceStub(channel).Export(log_request("codex.tool_result", {}), timeout=ANSWER_S)
    assert answer.partial_success.rejected_log_records == 1


async def test_without_an_acknowledgement_the_status_asks_to_send_again(channel, kafka):
    kafka.answers = [SubmitResult(retry_after_s=1)]
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(span_request({"id": 1}), timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_wrong_token_is_refused(channel, kafka):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(
            span_request({"id": 1}), metadata=[("authorization", "Bearer wrong")], timeout=ANSWER_S
        )
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert kafka.acknowledged == []


@pytest.mark.slow
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_request_that_is_too_large_is_refused_also_if_it_is_small_when_compressed(channel, kafka, compression):
    request = span_request({"id": 1, "attributes": TOOL | {"x": "0" * 9_000_000}})
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(request, compression=compression, timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kafka.acknowledged == []


async def test_bytes_that_are_not_a_request_are_refused(channel, kafka):
    call = channel.unary_unary(EXPORT)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(b"\xff\xff\xff", timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert kafka.acknowledged == []


async def test_the_token_is_checked_before_a_request_is_decoded(channel):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(EXPORT)(b"\xff\xff", metadata=[("authorization", "Bearer wrong")], timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_request_with_too_many_spans_is_refused(channel):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(EXPORT)(empty_spans(MAX_RECORDS + 1), timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.slow
async def test_calls_without_a_message_end_when_their_time_is_over_and_a_token_can_not_take_all(
    channel, kafka, monkeypatch
):
    monkeypatch.setattr(module, "_BODY_S", 1.0 * limits.FACTOR)
    silent = [channel.stream_unary(EXPORT)(metadata=[("authorization", "Bearer one")]) for _ in range(40)]
    statuses = {each: asyncio.create_task(each.code()) for each in silent}
    refused = [next(asyncio.as_completed(statuses.values())) for _ in range(1)]
    assert await refused[0] is grpc.StatusCode.UNAVAILABLE
    await channel.unary_unary(EXPORT)(
        sample("agent_framework").SerializeToString(), metadata=[("authorization", "Bearer two")], timeout=ANSWER_S
    )
    assert len(kafka.acknowledged) == 3
    found = [await each for each in statuses.values()]
    assert found.count(grpc.StatusCode.DEADLINE_EXCEEDED) == 32
    assert found.count(grpc.StatusCode.UNAVAILABLE) == 8


async def test_calls_with_a_wrong_token_are_refused_without_waiting_for_their_message(channel, kafka):
    silent = [channel.stream_unary(EXPORT)(metadata=[("authorization", "Bearer wrong")]) for _ in range(60)]
    assert {await each.code() for each in silent} == {grpc.StatusCode.UNAUTHENTICATED}
    await TraceServiceStub(channel).Export(sample("agent_framework"), timeout=ANSWER_S)
    assert len(kafka.acknowledged) == 3


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_many_empty_attributes_in_one_span_are_refused_before_they_are_made(channel, kafka, compression):
    body = inside(0x0A, inside(0x12, inside(0x12, b"\x4a\x00" * 1_000_000)))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(EXPORT)(body, compression=compression, timeout=ANSWER_S)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "attributes" in raised.value.details()


async def test_a_compressed_request_is_taken(channel, kafka):
    await TraceServiceStub(channel).Export(
        sample("agent_framework"), compression=grpc.Compression.Gzip, timeout=ANSWER_S
    )
    assert len(kafka.acknowledged) == 3


async def test_memory_is_shared_with_http_and_bounds_grpc(kafka):
    async def sender_of(_headers):
        return Sender(kafka, client="token a")

    budget, request = Budget(1_000_000), sample("agent_framework")
    async with (
        serving_otlp_grpc(Ingest(), sender_of, "127.0.0.1:0", budget=budget) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        with budget.request("token a") as held:
            held.add(499_000)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await TraceServiceStub(channel).Export(request, timeout=ANSWER_S)
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        await TraceServiceStub(channel).Export(request, timeout=ANSWER_S)
        assert budget.held == 0


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5B2001:db8::1%5D:4711", "2001:db8::"),
        ("ipv6:[2001:db8::2]:4711", "2001:db8::"),
        ("unix:", ""),
    ],
)
def test_the_address_of_a_client_is_that_of_its_host(peer, address):
    assert module._address(peer) == address


async def test_a_taken_port_is_an_error_that_names_the_address(port):
    async def sender_of(headers):
        raise AssertionError

    with pytest.raises(SwitchgearError, match=str(port)):
        async with serving_otlp_grpc(Ingest(), sender_of, f"127.0.0.1:{port}"):
            pass


async def test_the_real_exporter_of_the_sdk_delivers_its_spans(port, kafka):
    def export():
        provider = TracerProvider()
        exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("test").start_span("execute_tool get_forecast", attributes=TOOL).end()
        provider.shutdown()

    await asyncio.to_thread(export)
    assert kafka.tools == ["get_forecast"]
