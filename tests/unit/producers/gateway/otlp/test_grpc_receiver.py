"""OTLP over gRPC, by the SDK's real exporter and by a plain client."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from switchgear_gateway.otlp.grpc_receiver import serving_otlp_grpc
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.parts import MAX_RECORDS
from switchgear_gateway.otlp.submission import NotAllowedError, Result
from switchgear_schemas.errors import SwitchgearError
from tests.unit.producers.gateway.otlp.support import TOOL, Kafka, empty_spans, log_request, sample, span_request

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
def kafka():
    return Kafka()


@pytest.fixture
async def port(kafka):
    async def sender_of(headers):
        if headers.get("authorization") == "Bearer wrong":
            raise NotAllowedError("The token is unknown.", status=401)
        return kafka.sender()

    async with serving_otlp_grpc(Ingest(), sender_of, "127.0.0.1:0") as listening:
        yield listening


@pytest.fixture
async def channel(port):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened


async def test_spans_are_taken(channel, kafka):
    answer = await TraceServiceStub(channel).Export(sample("agent_framework"), timeout=10)
    assert answer.partial_success.rejected_spans == 0
    assert len(kafka.acknowledged) == 3


async def test_logs_are_taken(channel, kafka):
    request = log_request("codex.tool_result", {"tool_name": "shell", "success": "true", "call_id": "c"})
    await LogsServiceStub(channel).Export(request, timeout=10)
    assert kafka.tools == ["shell"]


async def test_calls_that_cannot_be_used_are_a_partial_success(channel):
    request = span_request({"id": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}})
    answer = await TraceServiceStub(channel).Export(request, timeout=10)
    assert answer.partial_success.rejected_spans == 1
    answer = await LogsServiceStub(channel).Export(log_request("codex.tool_result", {}), timeout=10)
    assert answer.partial_success.rejected_log_records == 1


async def test_without_an_acknowledgement_the_status_asks_to_send_again(channel, kafka):
    kafka.answers = [Result(retry_after_s=1)]
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(span_request({"id": 1}), timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_wrong_token_is_refused(channel, kafka):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(
            span_request({"id": 1}), metadata=[("authorization", "Bearer wrong")], timeout=10
        )
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert kafka.acknowledged == []


@pytest.mark.slow
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_request_that_is_too_large_is_refused_also_if_it_is_small_when_compressed(channel, kafka, compression):
    request = span_request({"id": 1, "attributes": TOOL | {"x": "0" * 9_000_000}})
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await TraceServiceStub(channel).Export(request, compression=compression, timeout=20)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kafka.acknowledged == []


async def test_bytes_that_are_not_a_request_are_refused(channel, kafka):
    call = channel.unary_unary(EXPORT)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(b"\xff\xff\xff", timeout=10)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert kafka.acknowledged == []


async def test_the_token_is_checked_before_a_request_is_decoded(channel):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(EXPORT)(b"\xff\xff", metadata=[("authorization", "Bearer wrong")], timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_request_with_too_many_spans_is_refused(channel):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(EXPORT)(empty_spans(MAX_RECORDS + 1), timeout=10)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


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
