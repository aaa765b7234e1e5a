from __future__ import annotations

import json

import pytest

from switchgear_gateway.otlp.decoding import encoding_of, logs_from, traces_from
from switchgear_gateway.otlp.parts import MAX_RECORDS, TooManyRecordsError, UnreadableBodyError
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import calls_in, sample, span_request

SPAN = {
    "traceId": "5B8EFFF798038103D269B633813FC60C",
    "spanId": "eee19b7ec3c1b174",
    "parentSpanId": "eee19b7ec3c1b173",
    "name": "execute_tool search",
    "kind": 1,
    "startTimeUnixNano": "1790000000000000000",
    "endTimeUnixNano": "1790000000100000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "search"}},
    ],
    "status": {"code": 2, "message": "connection refused"},
    "links": [{"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "eee19b7ec3c1b174"}],
    "fieldOfALaterVersion": 1,
}


def as_json(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def test_json_has_hexadecimal_ids():
    (call,) = calls_in(traces_from(as_json(SPAN), "json"))
    assert call.traceparent == "00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01"
    assert (call.error_class, call.error_message) == ("unknown", "connection refused")


def test_protobuf_and_json_of_the_same_request_are_the_same_calls():
    from google.protobuf import json_format  # noqa: PLC0415

    request = span_request({"id": 1, "error": "timed out"})
    given = json_format.MessageToDict(request)
    for scope in given["resourceSpans"][0]["scopeSpans"]:
        for span in scope["spans"]:
            span["traceId"], span["spanId"] = bytes(range(16)).hex(), (1).to_bytes(8, "big").hex()
    assert calls_in(traces_from(json.dumps(given).encode(), "json")) == calls_in(request)


@table(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"kind": {"no": 1}}]}]}]}',
        b"[" * 100_000,
        b'{"resourceSpans": [' * 5_000,
        b"\xff\xfe",
    ],
)
def test_broken_json_is_refused_and_never_raises_another_error(body):
    with pytest.raises(UnreadableBodyError):
        traces_from(body, "json")
    if b"pans" not in body:
        with pytest.raises(UnreadableBodyError):
            logs_from(body, "json")


@pytest.mark.parametrize("body", [b"\xff" * 100, b"not protobuf", sample("fastmcp").SerializeToString()[:-5]])
def test_broken_protobuf_is_refused(body):
    with pytest.raises(UnreadableBodyError):
        traces_from(body, "protobuf")


def inside(tag, content):
    """Return a field of protobuf with this content."""
    size, number = b"", len(content)
    while number > 127:
        size, number = size + bytes([number % 128 + 128]), number // 128
    return bytes([tag]) + size + bytes([number]) + content


@pytest.mark.parametrize(
    "body",
    [
        inside(0x0A, inside(0x12, b"\x12\x00" * (MAX_RECORDS + 1))),
        inside(0x0A, b"\x12\x00" * (MAX_RECORDS + 1)),
        b"\x0a\x00" * (MAX_RECORDS + 1),
    ],
)
def test_more_empty_records_scopes_or_resources_than_the_limit_are_refused(body):
    for decode in (traces_from, logs_from):
        with pytest.raises(TooManyRecordsError, match="20,000"):
            decode(body, "protobuf")


def test_as_many_records_as_the_limit_are_read():
    body = inside(0x0A, inside(0x12, b"\x12\x00" * MAX_RECORDS))
    assert len(traces_from(body, "protobuf").resource_spans[0].scope_spans[0].spans) == MAX_RECORDS


def test_more_objects_of_json_than_the_limit_are_refused_before_they_are_made():
    with pytest.raises(TooManyRecordsError):
        traces_from(b'{"resourceSpans": [' + b"{}," * 500_000 + b"{}]}", "json")


def test_a_message_without_headers_is_json_if_it_begins_like_an_object():
    assert encoding_of(as_json(SPAN)) == "json"
    assert encoding_of(sample("fastmcp").SerializeToString()) == "protobuf"
