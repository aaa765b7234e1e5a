"""A real gateway process over a real broker: what it acknowledges is in Kafka, and what it doesn't know it says."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from switchgear_schemas.headers import RESENT
from tests.support.limits import HAPPEN_S
from tests.support.processes import switchgear
from tests.support.running_gateway import NDJSON, execution, lines, running_gateway
from tests.support.sinking import read_topic
from tests.support.stream import eventually

pytestmark = pytest.mark.timeout(300)

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "from_a_span", "gen_ai.tool.call.id": "c1"}
POLICY = '[tools."counted:*"]\nconsecutive_failures = 5\n'


async def post(client, *executions, headers=NDJSON, **options):
    return await client.post("/v1/executions", content=lines(*executions), headers=headers, **options)


async def stored(settings, *executions):
    """The records of these executions in the topic, by their ids."""
    wanted = {each["metric_id"] for each in executions}
    found = await read_topic(settings, settings.topics.executions)
    return [each for each in found if json.loads(each.value).get("metric_id") in wanted]


async def test_acknowledged_executions_are_in_kafka_and_bad_ones_are_named(gateway, gateway_settings, tokens):
    good = [execution(tool_name=f"mcp:server:tool-{number % 7}") for number in range(500)]
    async with gateway.client(tokens["emitter"]) as client:
        batch = [*good[:300], {"tool_name": "x"}, *good[300:], execution(execution_time_ms="slow")]
        answer = await client.post(
            "/v1/executions",
            content=gzip.compress(lines(*batch).encode()),
            headers=NDJSON | {"Content-Encoding": "gzip"},
        )
        assert answer.status_code == 200
        assert answer.json()["accepted"] == 500
        assert [each["index"] for each in answer.json()["rejected"]] == [300, 501]
        assert answer.json()["rejected"][1]["reason"].startswith("execution_time_ms: ")
    records = await stored(gateway_settings, *good)
    assert len(records) == 500
    assert len({each.partition for each in records}) == 1, "the tools of a family share a partition"
    assert {json.loads(each.value)["emitter_id"] for each in records} == {"emitter"}


async def test_an_answer_without_waiting_still_sends(gateway, gateway_settings, tokens):
    one = execution()
    async with gateway.client(tokens["emitter"]) as client:
        answer = await post(client, one, headers=NDJSON | {"Prefer": "respond-async"})
    assert (answer.status_code, answer.json()) == (202, {"queued": 1, "rejected": []})
    await eventually(lambda: stored(gateway_settings, one), what="the event in the topic")


async def test_a_batch_that_is_sent_again_counts_once(gateway, gateway_settings, tokens, tmp_path):
    policy = tmp_path / "policies.toml"
    policy.write_text(POLICY)
    settings = gateway_settings.model_copy(update={"policy_file": policy, "worker_http": "127.0.0.1:0"})
    failures = [execution(tool_name="counted:once", status="error", error_class="server") for _ in range(5)]

    async def circuits():
        records = await read_topic(settings, settings.topics.circuits)
        return [found for each in records if (found := json.loads(each.value))["tool_name"] == "counted:once"]

    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        async with gateway.client(tokens["emitter"]) as client:
            assert (await post(client, *failures[:4])).status_code == 200
            again = await post(client, *failures[:4], headers=NDJSON | {"Switchgear-Resent": "true"})
            assert again.json() == {"accepted": 4, "rejected": []}
            await eventually(lambda: stored(settings, failures[0]), what="the copies")
            assert [dict(each.headers).get(RESENT) for each in await stored(settings, failures[0])] == [None, b"1"]
            assert (await post(client, failures[4])).status_code == 200
            opened = await eventually(circuits, timeout_s=HAPPEN_S, what="a circuit")
        assert [each["state"] for each in opened if each["state"] != "closed"] == ["open"]
        assert worker.alive
    assert opened[-1]["counts"]["failed"] == 5, opened[-1]


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_the_real_exporters_of_opentelemetry_deliver_tool_calls(gateway, gateway_settings, tokens, way):
    tool = f"from_a_span:{way}"
    login = {"authorization": f"Bearer {tokens['acme']}"}
    if way == "http":
        exporter = HttpExporter(endpoint=f"{gateway.url}/v1/traces", headers=login)
    else:
        exporter = GrpcExporter(endpoint=gateway_settings.gateway_otlp_grpc, insecure=True, headers=login)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("t").start_span(f"execute_tool {tool}", attributes=TOOL | {"gen_ai.tool.name": tool}).end()
    provider.shutdown()
    events = asyncio.run(read_topic(gateway_settings, gateway_settings.topics.executions))
    found = [each for record in events if (each := json.loads(record.value))["tool_name"] == tool]
    assert [(each["status"], each["tenant"]) for each in found] == [("success", "acme")]


async def test_readiness_metrics_and_the_document_are_served(gateway, tokens):
    async with gateway.client() as anyone, gateway.client(tokens["reader"]) as reader:
        assert (await anyone.get("/healthz")).json() == {"status": "ok"}
        assert (await anyone.get("/readyz")).json()["checks"] == {"kafka": True, "circuits": True}
        assert (await anyone.get("/metrics")).status_code == 401
        assert "switchgear_gateway_events_total" in (await reader.get("/metrics")).text
        assert "/v1/executions" in (await reader.get("/openapi.json")).json()["paths"]


async def test_acknowledgements_that_do_not_come_are_unknown_and_a_second_try_is_marked(
    gateway, gateway_settings, tokens, broker
):
    batch = [execution(tool_name="while-frozen") for _ in range(3)]
    async with gateway.client(tokens["emitter"]) as client:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            answer = await post(client, *batch)
            assert (answer.status_code, answer.json()["unknown"]) == (503, [0, 1, 2])
            refused = await post(client, *batch, headers=NDJSON | {"Switchgear-Resent": "true"})
            assert refused.status_code == 503
            assert "unknown" not in refused.json(), "nothing of it was taken"
            assert (await client.get("/readyz")).status_code == 503
        finally:
            os.kill(broker.pid, signal.SIGCONT)

        async def accepted():
            return (await post(client, *batch, headers=NDJSON | {"Switchgear-Resent": "true"})).status_code == 200

        await eventually(accepted, timeout_s=HAPPEN_S, what="an acknowledgement")
        await eventually(lambda: asyncio.to_thread(gateway.ready), what="readiness")
    records = await stored(gateway_settings, *batch)
    assert {json.loads(each.value)["metric_id"] for each in records} == {each["metric_id"] for each in batch}
    for one in batch:
        copies = sorted(
            (each for each in records if json.loads(each.value)["metric_id"] == one["metric_id"]),
            key=lambda r: r.offset,
        )
        assert all(dict(each.headers).get(RESENT) == b"1" for each in copies[1:]), "a copy without a mark counts twice"


async def test_events_of_a_client_that_gave_up_while_the_gateway_stood_still_are_marked_as_sent_again(
    gateway, gateway_settings, tokens
):
    late, fresh = [execution() for _ in range(3)], execution()
    async with gateway.client(tokens["emitter"]) as client:
        assert (await post(client, execution())).status_code == 200  # it is connected
        os.kill(gateway.child.pid, signal.SIGSTOP)
        try:
            with pytest.raises(httpx.ReadTimeout):
                await post(client, *late, timeout=0.3)
        finally:
            os.kill(gateway.child.pid, signal.SIGCONT)
        assert (await post(client, fresh)).status_code == 200

    async def all_there():
        found = await stored(gateway_settings, *late, fresh)
        return found if len(found) == 4 else []

    records = await eventually(all_there, what="the events of both requests")
    marks = {json.loads(each.value)["metric_id"]: dict(each.headers).get(RESENT) for each in records}
    assert marks == {each["metric_id"]: b"1" for each in late} | {fresh["metric_id"]: None}


async def test_sigterm_under_load_loses_nothing_that_was_acknowledged(gateway_settings, tokens, tmp_path):
    settings = gateway_settings.model_copy(update={"gateway_otlp_grpc": None})
    acknowledged: list[dict] = []
    queued: list[dict] = []
    with running_gateway(settings, tmp_path / "gateway.log") as gateway:

        async def send(headers, kept):
            async with gateway.client(tokens["emitter"]) as client:
                while True:
                    batch = [execution() for _ in range(50)]
                    try:
                        answer = await post(client, *batch, headers=NDJSON | headers)
                    except httpx.HTTPError:
                        return
                    if answer.status_code in (200, 202):
                        kept += batch

        senders = [asyncio.create_task(send({}, acknowledged)) for _ in range(4)]
        senders.append(asyncio.create_task(send({"Prefer": "respond-async"}, queued)))
        while len(acknowledged) < 1_000 or len(queued) < 500:  # noqa: ASYNC110 - of tasks of this loop
            await asyncio.sleep(0.05)
        gateway.child.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*senders)
        assert await asyncio.to_thread(gateway.child.wait_for_exit) == 0
    everything = [*acknowledged, *queued]
    found = {json.loads(each.value)["metric_id"] for each in await stored(gateway_settings, *everything)}
    assert found == {each["metric_id"] for each in everything}


async def test_a_gateway_without_tokens_refuses_to_listen_for_other_machines(gateway_settings, tmp_path):
    settings = gateway_settings.model_copy(update={"access_tokens_file": None, "gateway_http": "0.0.0.0:0"})
    with switchgear("gateway", log=tmp_path / "gateway.log", settings=settings) as child:
        assert await asyncio.to_thread(child.wait_for_exit) == 1
        assert "switchgear token create" in child.output()
