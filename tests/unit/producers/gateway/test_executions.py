"""The route of executions, as far as it can be seen without Kafka: formats, limits, back-pressure, unknown acknowledgements."""

from __future__ import annotations

import asyncio
import codecs
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_gateway import checking, executions
from switchgear_gateway import publisher as module
from switchgear_gateway.app import create_app
from switchgear_gateway.bodies import Budget
from switchgear_gateway.checking import Run
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.executions import MAX_ITEMS, ExecutionRoutes
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.shared import Shared
from switchgear_http import turns
from switchgear_http.authenticator import Authenticator
from switchgear_http.problem import ProblemError
from switchgear_schemas.settings import Settings

EVENT = {"tool_name": "search", "status": "success"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def lines(*events):
    return "\n".join(json.dumps(each) for each in events)


@pytest.fixture
async def publisher():
    """It doesn't run, so nothing is acknowledged. It takes executions as after its first connection."""
    made = Publisher(Settings(gateway_ack_s=0.1), CollectorRegistry(), max_events=5, max_bytes=10_000)
    made._outbox.knows_partitions = True
    return made


@pytest.fixture
async def client(publisher):
    app = create_app(
        [ExecutionRoutes(publisher, EmitterClocks(300), Shared())],
        Settings(),
        registry=CollectorRegistry(),
        authenticator=Authenticator(),
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as opened:
        yield opened


async def test_without_acknowledgements_the_indices_are_unknown_and_rejections_are_named(client):
    answer = await client.post("/v1/executions", content=lines(EVENT, {"status": "success"}, EVENT), headers=NDJSON)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    found = answer.json()
    assert (found["accepted"], found["unknown"]) == (0, [0, 2])
    assert [each["index"] for each in found["rejected"]] == [1]
    assert answer.headers["retry-after"] == "1"


async def test_before_the_first_connection_to_kafka_nothing_is_taken(client, publisher):
    publisher._outbox.knows_partitions = False
    answer = await client.post("/v1/executions", content=lines(EVENT), headers=NDJSON)
    assert (answer.status_code, publisher.in_flight) == (503, 0)
    assert "unknown" not in answer.json()


async def test_a_client_that_does_not_wait_is_answered_at_once(client, publisher):
    headers = NDJSON | {"Prefer": "respond-async, wait=10"}
    answer = await client.post("/v1/executions", content=lines(EVENT, {}), headers=headers)
    assert (answer.status_code, answer.json()["queued"]) == (202, 1)
    assert answer.json()["rejected"][0]["index"] == 1
    assert answer.headers["preference-applied"] == "respond-async"
    assert publisher.in_flight == 1


async def test_executions_above_the_bound_are_asked_to_come_later_and_none_is_taken(client, publisher):
    headers = NDJSON | {"Prefer": "respond-async"}
    await client.post("/v1/executions", content=lines(*[EVENT] * 4), headers=headers)
    answer = await client.post("/v1/executions", content=lines(EVENT, EVENT), headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert "unknown" not in answer.json()
    assert publisher.in_flight == 4


async def test_bytes_have_a_bound_too(client, publisher):
    large = EVENT | {"metadata": {"x": "y" * 6_000}}
    headers = NDJSON | {"Prefer": "respond-async"}
    statuses = [(await client.post("/v1/executions", content=lines(large), headers=headers)).status_code for _ in "ab"]
    assert statuses == [202, 429]


async def test_a_local_time_without_a_zone_is_read_as_utc_and_said_once_to_its_emitter(client):
    local = (datetime.now(UTC) - timedelta(hours=5)).replace(tzinfo=None).isoformat()
    event = EVENT | {"recorded_at": local, "emitter_id": "host:7:a"}
    headers = NDJSON | {"Prefer": "respond-async"}
    first = (await client.post("/v1/executions", content=lines(event), headers=headers)).json()
    (said,) = first["warnings"]
    assert said.startswith(
        "host:7:a: its times have no time zone and are 5 h behind UTC, so no circuit counts its calls. Send "
    )
    assert "warnings" not in (await client.post("/v1/executions", content=lines(event), headers=headers)).json()
    other = event | {"emitter_id": "host:8:b"}
    unknown = (await client.post("/v1/executions", content=lines(other, other), headers=NDJSON)).json()
    assert [each.partition(": ")[0] for each in unknown["warnings"]] == ["host:8:b"], "also if Kafka does not answer"


async def test_many_small_executions_count_for_the_memory_that_they_take(publisher, monkeypatch):
    budget, before = Budget(most=400_000), []
    submit = publisher.submit

    async def submitted(*given, **how):
        before.append(budget.held)
        return await submit(*given, **how)

    monkeypatch.setattr(publisher, "submit", submitted)
    app = create_app(
        [ExecutionRoutes(publisher, EmitterClocks(300), Shared(budget=budget))],
        Settings(),
        registry=CollectorRegistry(),
        authenticator=Authenticator(),
    )
    headers = NDJSON | {"Prefer": "respond-async"}
    small = [{"tool_name": str(each), "status": "error"} for each in range(500)]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        few = await client.post("/v1/executions", content=lines(*small[:5]), headers=headers)
        many = await client.post("/v1/executions", content=lines(*small), headers=headers)
    assert (few.status_code, many.status_code) == (202, 429)
    assert "too many large requests" in many.json()["detail"]
    assert min(before) > 5_000
    assert (budget.held, publisher.in_flight) == (0, 5)


async def test_an_empty_batch_is_accepted(client):
    for body, kind in (("", "application/x-ndjson"), ("\n \n", "application/x-ndjson"), ("[]", "application/json")):
        answer = await client.post("/v1/executions", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (200, {"accepted": 0, "rejected": []})


async def test_a_json_array_and_lines_are_read_alike(client, publisher):
    headers = {"Content-Type": "application/json; charset=utf-8", "Prefer": "respond-async"}
    answer = await client.post("/v1/executions", json=[EVENT, 1, EVENT], headers=headers)
    assert (answer.json()["queued"], answer.json()["rejected"][0]["index"]) == (2, 1)
    assert publisher.in_flight == 2


async def test_a_mark_of_utf_8_before_the_executions_is_no_error(client):
    for body, kind in ((json.dumps(EVENT), "application/x-ndjson"), (json.dumps([EVENT]), "application/json")):
        headers = {"Content-Type": kind, "Prefer": "respond-async"}
        answer = await client.post("/v1/executions", content=codecs.BOM_UTF8 + body.encode(), headers=headers)
        assert (answer.json()["queued"], answer.json()["rejected"]) == (1, [])


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("{}", "application/json", 400),
        ("[", "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ("\xff[]", "application/json", 400),
        ("", "text/plain", 415),
        ("", "", 415),
        ("{}\n" * (MAX_ITEMS + 1), "application/x-ndjson", 413),
        ("\n" * 1_000_000, "application/x-ndjson", 413),
        ("[" + "1," * 1_000_000 + "1]", "application/json", 413),
        ("x" * 8_388_609, "application/x-ndjson", 413),
    ],
    ids=["object", "broken", "deep", "not JSON", "text", "none", "items", "lines", "values", "bytes"],
)
async def test_a_body_that_is_no_batch_is_a_problem(client, publisher, body, kind, status):
    answer = await client.post("/v1/executions", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert publisher.in_flight == 0


async def test_only_the_first_hundred_reasons_are_listed(client):
    answer = await client.post("/v1/executions", content="{}\n" * 150, headers=NDJSON)
    assert (answer.status_code, answer.json()["accepted"], len(answer.json()["rejected"])) == (200, 0, 100)


async def test_other_methods_and_paths_are_problems(client):
    assert (await client.get("/v1/executions")).status_code == 405
    answer = await client.get("/v2")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_an_array_of_many_small_values_is_refused_before_they_are_made(client):
    answer = await client.post("/v1/executions", json=[0] * 300_000)
    assert answer.status_code == 413
    assert "application/x-ndjson" in answer.json()["hint"]


async def test_an_event_with_too_many_values_is_rejected_alone(client):
    dense = EVENT | {"metadata": {"x": [[]] * 200_000}}
    answer = await client.post("/v1/executions", content=lines(EVENT, dense, EVENT), headers=NDJSON)
    assert [each["index"] for each in answer.json()["rejected"]] == [1]
    assert answer.json()["rejected"][0]["reason"].startswith("metadata: ")


@pytest.mark.parametrize("kind", ["lines", "array"])
async def test_executions_of_many_steps_keep_their_places(client, kind, monkeypatch):
    monkeypatch.setattr(checking, "_STEP_BYTES", 100)
    monkeypatch.setattr(executions, "_STEP_BYTES", 70)
    events = [EVENT, {"status": "x"}, EVENT | {"tool_name": "b"}, {}, EVENT]
    request = {"content": lines(*events), "headers": NDJSON} if kind == "lines" else {"json": events}
    found = (await client.post("/v1/executions", **request)).json()
    assert [each["index"] for each in found["rejected"]] == [1, 3]
    assert found["unknown"] == [0, 2, 4]


async def test_a_request_that_is_given_up_while_it_is_handed_over_leaves_nothing_behind(publisher, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", -1.0)
    monkeypatch.setattr(module, "_SOME_TOOLS", 1)
    runs = {name: Run([b"{}"], [index]) for index, name in enumerate("abcd")}
    submitting = asyncio.create_task(publisher.submit(runs, turns.Turn()))
    while not publisher.in_flight:  # noqa: ASYNC110 - a count, no event
        await asyncio.sleep(0)
    assert publisher.in_flight == 4
    submitting.cancel()
    await asyncio.gather(submitting, return_exceptions=True)
    assert publisher.in_flight == publisher._outbox.pending == 4
    with pytest.raises(ProblemError):
        await publisher.submit(runs, turns.Turn())
