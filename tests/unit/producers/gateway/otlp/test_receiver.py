"""OTLP over HTTP, by a client on the real application interface, and once by the SDK's real exporter over a socket."""

from __future__ import annotations

import codecs
import gzip
import json
import threading

import httpx
import pytest
import uvicorn
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from switchgear_gateway.bodies import Budget, zstd
from switchgear_gateway.otlp.decoding import MAX_BODY_BYTES
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.parts import MAX_RECORDS
from switchgear_gateway.otlp.receiver import OtlpReceiver
from switchgear_gateway.otlp.submission import SubmitResult
from switchgear_http.application import create_application
from switchgear_http.middleware import _KEY
from switchgear_http.principal import LOCAL
from switchgear_http.routing import Routes
from tests.support.limits import ANSWER_S
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import TOOL, Kafka, empty_spans, log_request, sample, span_request
from tests.unit.producers.gateway.otlp.test_decoding import SPAN, as_json

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def application(kafka):
    receiver = OtlpReceiver(Ingest(), lambda _client: kafka.sender(), budget=Budget())
    app = create_application(Routes(receiver.routes), elsewhere="")

    async def local(scope, receive, send):
        await app({**scope, _KEY: LOCAL}, receive, send)

    return local


@pytest.fixture
def kafka():
    return Kafka()


@pytest.fixture
async def client(kafka):
    transport = httpx.ASGITransport(application(kafka))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as opened:
        yield opened


async def test_spans_in_protobuf_are_taken_and_answered_in_protobuf(client, kafka):
    answer = await client.post("/v1/traces", content=sample("pydantic_ai").SerializeToString(), headers=PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert len(kafka.acknowledged) == 3


async def test_spans_in_json_are_taken_and_answered_in_json(client, kafka):
    answer = await client.post("/v1/traces", content=as_json(SPAN), headers=JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert kafka.tools == ["search"]


async def test_a_gzip_body_is_taken(client, kafka):
    body = gzip.compress(sample("vercel_ai_5").SerializeToString())
    answer = await client.post("/v1/traces", content=body, headers=PROTOBUF | {"Content-Encoding": "gzip"})
    assert answer.status_code == 200
    assert len(kafka.acknowledged) == 2


async def test_logs_are_taken(client, kafka):
    request = log_request("codex.tool_result", {"tool_name": "shell", "success": "true", "call_id": "c"})
    answer = await client.post("/v1/logs", content=request.SerializeToString(), headers=PROTOBUF)
    assert ExportLogsServiceResponse.FromString(answer.content) == ExportLogsServiceResponse()
    assert kafka.tools == ["shell"]


async def test_calls_that_cannot_be_used_are_a_partial_success(client, kafka):
    request = span_request({"id": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}}, {"id": 2})
    answer = await client.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 200
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "the tool has no name")
    assert len(kafka.acknowledged) == 1


@table(
    "wrong",
    ["xyz", "0x5b8efff798038103d269b633813fc60c", "5b8efff798038103d269b633813fc60", "", "\u202e" * 16, "é" * 32],
)
async def test_one_wrong_id_rejects_its_call_and_not_the_others_of_the_batch(wrong):
    for field in ("traceId", "spanId"):
        kafka = Kafka()
        transport = httpx.ASGITransport(application(kafka))
        body = json.loads(as_json(SPAN))
        (scope,) = body["resourceSpans"][0]["scopeSpans"]
        scope["spans"].append(scope["spans"][0] | {field: wrong, "parentSpanId": "no", "links": [{"traceId": wrong}]})
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answer = await client.post("/v1/traces", json=body)
        assert answer.status_code == 200
        why = "the span has no valid trace id and span id"
        assert answer.json()["partialSuccess"] == {"rejectedSpans": "1", "errorMessage": why}
        assert kafka.tools == ["search"]


async def test_metrics_are_dropped_because_many_exporters_have_one_address_for_all_signals(client, kafka):
    for headers, answered in ((PROTOBUF, b""), (JSON, b"{}")):
        answer = await client.post("/v1/metrics", content=b"\xff not read", headers=headers)
        assert (answer.status_code, answer.content) == (200, answered)
        assert answer.headers["content-type"] == headers["Content-Type"]
    assert (await client.post("/v1/metrics", content=b"", headers={"Content-Type": "text/plain"})).status_code == 415
    assert kafka.acknowledged == []


async def test_a_mark_of_utf_8_before_json_is_no_error(client, kafka):
    answer = await client.post("/v1/traces", content=codecs.BOM_UTF8 + as_json(SPAN), headers=JSON)
    assert (answer.status_code, kafka.tools) == (200, ["search"])


async def test_a_zstd_body_of_a_collector_is_taken(client, kafka):
    body = zstd.compress(sample("vercel_ai_5").SerializeToString())
    answer = await client.post("/v1/traces", content=body, headers=PROTOBUF | {"Content-Encoding": "zstd"})
    assert (answer.status_code, len(kafka.acknowledged)) == (200, 2)


async def test_logs_that_cannot_be_used_are_a_partial_success_in_json_too(client):
    body = {
        "resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "1", "eventName": "codex.tool_result"}]}]}]
    }
    answer = await client.post("/v1/logs", json=body)
    assert answer.json()["partialSuccess"] == {"rejectedLogRecords": "1", "errorMessage": "the tool has no name"}


async def test_without_an_acknowledgement_the_exporter_is_asked_to_send_again(client, kafka):
    kafka.answers = [SubmitResult(retry_after_s=2.5)]
    body = span_request({"id": 1}).SerializeToString()
    answer = await client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await client.post("/v1/traces", content=body, headers=PROTOBUF)).status_code == 200
    assert len(kafka.acknowledged) == 1


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (PROTOBUF, b"\xff\xff", 400),
        (JSON, b"{", 400),
        (PROTOBUF | {"Content-Encoding": "gzip"}, b"no gzip", 400),
        (PROTOBUF | {"Content-Encoding": "br"}, b"", 415),
        ({"Content-Type": "text/plain"}, b"", 415),
        ({}, b"", 415),
        (PROTOBUF | {"Content-Encoding": "gzip"}, gzip.compress(b"\0" * 40_000_000), 413),
    ],
)
async def test_a_request_that_cannot_be_taken_is_a_problem_with_its_status(client, kafka, headers, body, status):
    for path in ("/v1/traces", "/v1/logs"):
        answer = await client.post(path, content=body, headers=headers)
        assert answer.status_code == status
        assert answer.json()["status"] == status
        assert answer.json()["detail"].endswith(".")
    assert kafka.acknowledged == []


@pytest.mark.slow
async def test_a_small_body_that_unpacks_to_millions_of_empty_spans_is_refused(client, kafka):
    for body in (gzip.compress(b"\x12\x00" * (MAX_BODY_BYTES // 2 + 1)), gzip.compress(empty_spans(MAX_RECORDS + 1))):
        assert len(body) < 10_000
        answer = await client.post("/v1/traces", content=body, headers=PROTOBUF | {"Content-Encoding": "gzip"})
        assert answer.status_code == 413
    assert "20,000" in answer.json()["detail"]


@pytest.mark.slow
def test_the_real_exporter_of_the_sdk_delivers_its_spans_over_a_socket(kafka):
    server = uvicorn.Server(uvicorn.Config(application(kafka), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("test").start_span("execute_tool get_forecast", attributes=TOOL).end()
        provider.shutdown()
    finally:
        server.should_exit = True
        thread.join(ANSWER_S)
    assert kafka.tools == ["get_forecast"]
