"""A large request is cut into parts before it is decoded: nothing is lost, and no part costs much."""

from __future__ import annotations

import asyncio
import json

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from switchgear_gateway.otlp import ingest as module
from switchgear_gateway.otlp import parts
from switchgear_gateway.otlp.decoding import MAX_MESSAGES, logs_from, traces_from
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.parts import (
    MAX_HEAD_BYTES,
    MAX_RECORDS,
    PART_BYTES,
    TooManyRecordsError,
    UnreadableBodyError,
    parts_of,
)
from switchgear_gateway.otlp.submission import SubmitResult, TryAgainError
from switchgear_http import turns
from tests.support.beats import beats_during
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import (
    SAMPLES,
    TOOL,
    Kafka,
    empty_spans,
    log_request,
    span_request,
    take,
)
from tests.unit.producers.gateway.otlp.test_decoding import inside


def cut(body, encoding="protobuf"):
    return [part for part in parts_of(body, encoding) if part is not None]


def as_json(request):
    return json_format.MessageToJson(request, indent=None).encode()


def flat(request):
    """Each record of a request, with its resource and its scope."""
    resources = getattr(request, "resource_spans", None) or getattr(request, "resource_logs", ())
    return [
        (of_resource.resource, of_scope.scope, record)
        for of_resource in resources
        for of_scope in (getattr(of_resource, "scope_spans", None) or of_resource.scope_logs)
        for record in (getattr(of_scope, "spans", None) or of_scope.log_records)
    ]


@pytest.mark.slow
@table("path", sorted(SAMPLES.glob("*.pb")), ids=lambda path: path.stem)
@table("size", [1, 500, 4_000])
def test_the_parts_of_a_recorded_request_have_its_records_in_their_order(path, size, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", size)
    body = path.read_bytes()
    try:
        kind, read, whole = ExportTraceServiceRequest, traces_from, traces_from(body, "protobuf")
    except UnreadableBodyError:
        kind, read, whole = ExportLogsServiceRequest, logs_from, logs_from(body, "protobuf")
    found = [flat(read(part, "protobuf")) for part in cut(body)]
    assert size > 1 or len(found) > len(body) // 8_192
    assert [each for part in found for each in part] == flat(whole)
    with_names = as_json(whole)
    in_json = [flat(json_format.Parse(part, kind())) for part in cut(with_names, "json")]
    assert [each for part in in_json for each in part] == flat(json_format.Parse(with_names, kind()))


def test_json_may_have_protobufs_names_and_nulls(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 10)
    body = {
        "resource_spans": [{"resource": None, "scope_spans": [{"scope": {"name": "a"}, "spans": [{"name": "x"}]}]}],
        "resourceSpans": [{"scopeSpans": [{"spans": [{"name": "y"}, {"name": "z"}], "schemaUrl": "u"}]}, {}],
        "resourceLogs": None,
    }
    found = [flat(traces_from(part, "json")) for part in cut(json.dumps(body).encode(), "json")]
    assert [(span.name, scope.name) for part in found for _, scope, span in part] == [("y", ""), ("z", ""), ("x", "a")]


@pytest.mark.slow
def test_a_part_is_small_unless_it_has_one_large_record():
    request = span_request(
        *[{"id": number + 1} for number in range(2_000)], {"id": 1, "attributes": {"x": "y" * 100_000}}
    )
    for encoding, body in (("protobuf", request.SerializeToString()), ("json", as_json(request))):
        found = cut(body, encoding)
        large = [part for part in found if len(part) > PART_BYTES + 300]
        assert len(large) == 1
        assert len(found) > 20


def test_a_resource_that_is_given_twice_is_merged():
    def resource(name):
        return inside(
            0x0A,
            ExportTraceServiceRequest.DESCRIPTOR
            and span_request(resource={name: name}).resource_spans[0].resource.SerializeToString(),
        )

    spans = inside(0x12, b"".join(inside(0x12, inside(0x2A, b"n" * 50)) for _ in range(300)))
    body = inside(0x0A, resource("first") + spans + resource("second"))
    for part in cut(body):
        (of_resource,) = traces_from(part, "protobuf").resource_spans
        assert [each.key for each in of_resource.resource.attributes] == ["first", "second"]


BODIES = {
    "spans": inside(0x0A, inside(0x12, b"\x12\x00" * (MAX_RECORDS + 1))),
    "scopes": inside(0x0A, b"\x12\x00" * (MAX_RECORDS + 1)),
    "resources": b"\x0a\x00" * (MAX_RECORDS + 1),
    "scopes and spans": inside(0x0A, inside(0x12, b"\x12\x00" * 9) * 3_000),
    "fields of the request": b"\x10\x00" * 200_000,
    "fields of a resource": inside(0x0A, b"\x20\x00" * 200_000),
    "fields of a scope": inside(0x0A, inside(0x12, b"\x20\x00" * 200_000)),
    "attributes of a resource": inside(0x0A, inside(0x0A, b"\x0a\x00" * 100_000) + inside(0x12, b"\x12\x00")),
}


@pytest.mark.slow
@table("body", BODIES.values(), ids=BODIES)
def test_a_request_with_too_much_above_its_records_is_refused_before_a_part_is_made(body):
    with pytest.raises(TooManyRecordsError) as raised:
        next(part for part in parts_of(body, "protobuf") if part is not None)
    assert raised.value.hint


@table(
    "body",
    [
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * MAX_RECORDS + b"{}]}]}]}",
        b'{"resourceSpans":[{"scopeSpans":[' + b"{}," * MAX_RECORDS + b"{}]}]}",
        b'{"resourceLogs":[' + b"{}," * MAX_RECORDS + b"{}]}",
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"0," * 400_000 + b"0]}]}]}",
        b'{"resourceSpans":[{"resource":"' + b"x" * (MAX_HEAD_BYTES + 1) + b'","scopeSpans":[{"spans":[{}]}]}]}',
    ],
    ids=["spans", "scopes", "resources", "numbers", "a large resource"],
)
def test_the_same_holds_for_json(body):
    with pytest.raises(TooManyRecordsError):
        next(part for part in parts_of(body, "json") if part is not None)


@pytest.mark.slow
@table("nested", [b"\x4a\x00", b"\x4a\x02\x12\x00", b"\x5a\x00", b"\x6a\x00", b"\x78\x00"])
def test_a_record_with_too_much_in_it_is_refused_before_it_is_decoded(nested):
    body = inside(0x0A, inside(0x12, inside(0x12, nested * (5 * MAX_MESSAGES))))
    (part,) = cut(body)
    with pytest.raises(TooManyRecordsError, match="too many attributes"):
        traces_from(part, "protobuf")


@pytest.mark.slow
def test_a_record_with_a_long_text_or_a_thousand_attributes_is_read():
    for attributes in ({"x": "y" * 5_000_000}, {f"name {number}": "v" * 50 for number in range(1_000)}):
        request = span_request({"id": 1, "attributes": TOOL | attributes})
        (span,) = request.resource_spans[0].scope_spans[0].spans
        span.ClearField("trace_id")  # JSON has it in another form than protobuf's JSON
        span.ClearField("span_id")
        for encoding, body in (("protobuf", request.SerializeToString()), ("json", as_json(request))):
            (part,) = cut(body, encoding)
            assert len(flat(traces_from(part, encoding))) == 1


@table(
    "body",
    [
        b"\xff" * 20_000,
        inside(0x0A, b"\xff" * 20_000),
        b"\x0b" * 20_000,
        inside(0x0A, inside(0x12, b"\x12\x01a" * 5_000))[:-1],
        span_request(*[{"id": number + 1} for number in range(300)]).SerializeToString()[:-5],
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 2_000,
    ],
)
def test_a_broken_request_is_refused(body):
    with pytest.raises(UnreadableBodyError):
        [traces_from(part, "protobuf") for part in cut(body)]


# -- how the ingest takes parts


async def test_most_requests_are_counted_and_sent_at_once_however_many_parts_they_have():
    kafka = Kafka()
    request = span_request(*[{"id": number + 1, "trace": number.to_bytes(16, "big")} for number in range(1, 500)])
    assert len(cut(request.SerializeToString())) > 5
    await take(Ingest(), request, kafka.sender())
    assert (len(kafka.acknowledged), kafka.resent) == (499, [False])


async def test_a_request_with_many_small_calls_is_sent_in_batches_and_each_call_once(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CALLS", 50)
    sizes = []

    class Counting(Kafka):
        async def __call__(self, executions, *, resent):
            sizes.append(len(executions))
            return await super().__call__(executions, resent=resent)

    kafka = Counting()
    request = span_request(*[{"id": number + 1, "trace": number.to_bytes(16, "big")} for number in range(1, 500)])
    await take(Ingest(), request, kafka.sender())
    assert len({each.metric_id for each in kafka.acknowledged}) == sum(sizes) == 499
    assert len(sizes) > 4
    assert max(sizes) < 150


async def test_a_batch_that_was_not_taken_does_not_count_the_earlier_ones_again(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CALLS", 50)
    kafka, ingest = Kafka(SubmitResult(), SubmitResult(retry_after_s=1)), Ingest()
    request = span_request(*[{"id": number + 1, "trace": number.to_bytes(16, "big")} for number in range(1, 300)])
    with pytest.raises(TryAgainError):
        await take(ingest, request, kafka.sender())
    await take(ingest, request, kafka.sender())
    assert len(kafka.acknowledged) == len({each.metric_id for each in kafka.acknowledged}) == 299


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["traces", "logs"])
async def test_a_request_that_is_given_up_counts_when_it_comes_again(kind, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", -1.0)
    if kind == "traces":
        request = span_request(*[{"id": number + 1, "trace": number.to_bytes(16, "big")} for number in range(1, 100)])
        number = 99
    else:
        log = {"tool_name": "Bash", "success": "true", "session.id": "s", "tool_use_id": "t1"}
        request, number = log_request("claude_code.tool_result", log), 1
    for pauses in range(0, 400, 37):
        kafka, ingest = Kafka(), Ingest()
        given_up = asyncio.create_task(take(ingest, request, kafka.sender()))
        for _ in range(pauses):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await take(ingest, request, kafka.sender())
        assert len({each.metric_id for each in kafka.acknowledged}) == number


@pytest.mark.slow
async def test_other_requests_go_on_between_the_parts_of_a_large_one(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", -1.0)
    request = Ingest().traces(empty_spans(MAX_RECORDS), "protobuf", Kafka().sender())
    assert await beats_during(request) > MAX_RECORDS


async def test_calls_that_wait_are_bounded_for_each_trace():
    """Each new span of a trace looks at all that wait."""
    kafka, ingest = Kafka(), Ingest()
    waiting = {"kind": 2, "attributes": {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_forecast"}}
    await take(
        ingest, span_request(*[waiting | {"id": number + 2, "parent": 1} for number in range(400)]), kafka.sender()
    )
    assert ingest._window.waiting <= 256
    assert len(kafka.acknowledged) == 400 - ingest._window.waiting


async def test_calls_that_wait_are_sent_after_a_cancelled_look_for_them(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", -1.0)
    waiting = {"kind": 2, "attributes": {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_forecast"}}
    spans = [waiting | {"id": number + 2, "parent": 1, "trace": number.to_bytes(16, "big")} for number in range(1, 50)]
    for pauses in range(0, 120, 13):
        kafka, ingest = Kafka(), Ingest()
        await take(ingest, span_request(*spans), kafka.sender())
        assert kafka.acknowledged == []
        looking = asyncio.create_task(ingest.send_due(everything=True))
        for _ in range(pauses):
            await asyncio.sleep(0)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await ingest.close()
        assert len({each.metric_id for each in kafka.acknowledged}) == 49
