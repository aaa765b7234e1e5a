"""What a client may send, and what the gateway adds to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from switchgear_gateway.checking import check_executions
from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_schemas.enums import MAX_EVENT_BYTES
from switchgear_schemas.wire import decode_execution

EMITTER = frozenset({Role.EMIT})
WHOLE = {
    "tool_name": "search",
    "status": "success",
    "metric_id": "01934f8e-0000-7000-8000-000000000001",
    "recorded_at": "2026-11-26T02:00:00Z",
    "emitter_id": "agent-1",
    "own_field": {"kept": [1, None]},
}


def sent(found):
    """Tool and bytes of each execution that can be sent, in the order of the request."""
    return [(tool, value) for _, tool, value in sorted(_places(found))]


def places(found):
    """The places in the request of those that can be sent."""
    return [index for index, _, _ in sorted(_places(found))]


def _places(found):
    return [
        (*each, value)
        for tool, run in found.runs.items()
        for each, value in zip([(index, tool) for index in run.indices], run.values, strict=True)
    ]


def checked(*executions, principal=LOCAL):
    return check_executions([json.dumps(each).encode() for each in executions], principal)


def test_a_complete_execution_is_sent_as_the_client_wrote_it():
    raw = (
        b' {"tool_name":"search" ,"status":"success","metric_id":"01934f8e-0000-7000-8000-000000000001",'
        b'"recorded_at":"2026-11-26T02:00:00Z","emitter_id":"agent-1","own_field":1e3}\r'
    )
    assert sent(check_executions([raw], LOCAL)) == [("search", raw)]


def test_missing_ids_and_times_are_added_and_unknown_fields_stay():
    found = checked({"tool_name": "search", "status": "success", "own_field": 7, "metric_id": None})
    added = json.loads(sent(found)[0][1])
    assert added["own_field"] == 7
    assert UUID(added["metric_id"]).version == 7
    assert datetime.now(UTC) - datetime.fromisoformat(added["recorded_at"]) < timedelta(minutes=1)
    assert added["emitter_id"] == "local"
    assert decode_execution(sent(found)[0][1]).tool_name == "search"


def test_what_is_not_an_execution_is_rejected_with_its_index_and_its_field():
    found = check_executions(
        [
            json.dumps(WHOLE).encode(),
            b'{"status":"success"}',
            b'{"tool_name":"a","status":"maybe"}',
            b"[]",
            b"{",
            b'{"tool_name":"a","status":"success","execution_time_ms":-1}',
            b'{"tool_name":"\\ud800","status":"success"}',
            b'{"tool_name":"\xff","status":"success"}',
            json.dumps(WHOLE | {"recorded_at": "1970-01-01T00:00:00Z"}).encode(),
            json.dumps(WHOLE | {"own_field": "x" * 1_100_000}).encode(),
        ],
        LOCAL,
    )
    assert places(found) == [0]
    assert [index for index, _ in found.rejected] == list(range(1, 10))
    reasons = dict(found.rejected)
    for index, field in ((1, "tool_name"), (2, "status"), (5, "execution_time_ms"), (8, "recorded_at")):
        assert reasons[index].startswith(f"{field}: ")
    assert "bytes" in reasons[9]


def test_an_execution_without_a_tenant_gets_that_of_the_token():
    principal = Principal("acme", EMITTER, tenant="acme")
    found = checked(WHOLE, WHOLE | {"tenant": ""}, WHOLE | {"tenant": None}, principal=principal)
    assert [json.loads(value)["tenant"] for _, value in sent(found)] == ["acme"] * 3


def test_an_execution_of_another_tenant_is_rejected():
    found = checked(
        WHOLE | {"tenant": "globex"}, WHOLE | {"tenant": "acme"}, principal=Principal("acme", EMITTER, tenant="acme")
    )
    assert found.rejected == [(0, "tenant: the token may send for the tenant 'acme' only")]
    assert places(found) == [1]


def test_a_key_that_is_there_twice_does_not_hide_another_tenant():
    raw = json.dumps(WHOLE).encode()[:-1]
    items = [raw + b',"tenant":"acme","tenant":"globex"}', raw + b',"tenant":"globex","tenant":"acme"}']
    found = check_executions(items, Principal("acme", EMITTER, tenant="acme"))
    assert [index for index, _ in found.rejected] == [0]
    assert [decode_execution(value).tenant for _, value in sent(found)] == ["acme"]


def test_a_token_for_some_tools_may_send_for_these_only():
    principal = Principal("weather", EMITTER, tools=("mcp:weather:*",))
    found = checked(WHOLE, WHOLE | {"tool_name": "mcp:weather:get"}, principal=principal)
    assert [tool for tool, _ in sent(found)] == ["mcp:weather:get"]
    assert found.rejected == [(0, "tool_name: the token may not send for this tool")]


def test_one_token_is_one_reporter_whatever_its_executions_say():
    principal = Principal("acme", EMITTER, credential="token abc")
    given = (
        {},
        {"reporter": "forged"},
        {"reporter": None},
        {"reporter": ""},
        {"emitter_id": "forged"},
        {"emitter_id": ""},
    )
    found = [
        decode_execution(value) for _, value in sent(checked(*(WHOLE | each for each in given), principal=principal))
    ]
    assert [each.counted_reporter for each in found] == ["token abc"] * len(given)
    assert [each.emitter_id for each in found] == ["agent-1", "agent-1", "agent-1", "agent-1", "forged", "acme"]
    twice = json.dumps(WHOLE).encode()[:-1] + b',"reporter":"a","reporter":null} \r\n'
    for value in (twice, twice.replace(b"null", b'"b"')):
        assert decode_execution(sent(check_executions([value], principal))[0][1]).reporter == "token abc"


@pytest.mark.parametrize("principal", [LOCAL, Principal("otel", EMITTER, credential="token abc", collector=True)])
def test_without_tokens_and_for_a_collector_each_process_is_a_reporter(principal):
    ((_, value),) = sent(checked(WHOLE, principal=principal))
    assert decode_execution(value).counted_reporter == "agent-1"
    assert value == json.dumps(WHOLE).encode()


def test_an_execution_that_its_reporter_makes_too_large_is_rejected():
    large = WHOLE | {"own_field": "x" * (MAX_EVENT_BYTES - len(json.dumps(WHOLE | {"own_field": ""})))}
    assert places(checked(large)) == [0]
    found = checked(large, principal=Principal("acme", EMITTER, credential="token abc"))
    assert "bytes" in dict(found.rejected)[0]


def test_credentials_are_removed_from_error_messages():
    failed = WHOLE | {"status": "error", "error_message": "401 for https://bot:hunter2hunter2@example.com/x"}
    (_, value), *_ = sent(checked(failed))
    assert b"hunter2" not in value
    assert b"example.com" in value


@pytest.mark.parametrize("message", ["timed out", ""])
def test_a_message_without_credentials_is_sent_as_it_is(message):
    failed = WHOLE | {"status": "error", "error_message": message}
    assert sent(checked(failed)) == [("search", json.dumps(failed).encode())]
