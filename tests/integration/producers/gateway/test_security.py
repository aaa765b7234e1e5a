"""Hostile and mistaken clients of a gateway: none changes state or takes memory beyond its bound."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_revoked, with_token
from tests.support.raw_http import answers, connected, everything
from tests.support.running_gateway import NDJSON, execution, lines
from tests.support.sinking import read_topic

pytestmark = pytest.mark.timeout(300)

POST = b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nContent-Type: application/x-ndjson\r\n"
MEBIBYTE = 1_048_576


@contextmanager
def memory_below(gateway, mebibytes):
    """The gateway's memory grows by less than this."""
    process = psutil.Process(gateway.child.pid)
    before = process.memory_info().rss
    yield
    grown = (process.memory_info().rss - before) / MEBIBYTE
    assert grown < mebibytes, f"{grown:.0f} MiB more"


async def count(settings):
    """How many executions are in the topic."""
    async with AIOKafkaConsumer(**settings.kafka.options()) as consumer:
        partitions = [TopicPartition(settings.topics.executions, each) for each in range(settings.topic_partitions)]
        return sum((await consumer.end_offsets(partitions)).values())


async def post(client, body, headers=NDJSON):
    return await client.post("/v1/executions", content=body, headers=headers)


async def test_tokens_that_give_no_access_send_nothing(gateway, gateway_settings, tokens):
    now, path = datetime.now(UTC), gateway_settings.access_tokens_file
    expired, expired_text = new_token("old", [Role.EMIT], expires_at=now - timedelta(minutes=1))
    revoked, revoked_text = new_token("gone", [Role.EMIT])
    path.write_text(with_revoked(with_token(with_token(path.read_text(), expired), revoked), revoked.id, now))
    await asyncio.sleep(1.1)  # the gateway looks at its file once a second
    before = await count(gateway_settings)
    wrong = tokens["emitter"][:-1] + ("a" if tokens["emitter"][-1] != "a" else "b")
    for token, status in (
        (None, 401), ("sgt_none_0123456789012345678901234", 401), (wrong, 401), (expired_text, 401), (revoked_text, 401),
        ("not a token", 401), (tokens["reader"], 403),
    ):  # fmt: skip
        async with gateway.client(token) as client:
            for target in ("/v1/executions", "/v1/traces", "/v1/logs"):
                answer = await client.post(target, content=lines(execution()), headers=NDJSON)
                assert (answer.status_code, answer.json()["status"]) == (status, status), target
    assert await count(gateway_settings) == before
    log = gateway.child.output()
    assert not any(text in log for text in (wrong, expired_text, revoked_text, *tokens.values()))


async def test_a_token_sends_for_its_tenant_and_its_tools_only(gateway, gateway_settings, tokens):
    mine, other = execution(), execution(tenant="globex")
    async with gateway.client(tokens["acme"]) as client:
        answer = await post(client, lines(mine, other))
        assert (answer.json()["accepted"], answer.json()["rejected"][0]["index"]) == (1, 1)
    allowed, refused = execution(tool_name="mcp:weather:get"), execution(tool_name="mcp:bank:pay")
    async with gateway.client(tokens["weather"]) as client:
        answer = await post(client, lines(refused, allowed))
        assert (answer.json()["accepted"], answer.json()["rejected"][0]["index"]) == (1, 0)
    found = {
        event["metric_id"]: event
        for each in await read_topic(gateway_settings, gateway_settings.topics.executions)
        if "metric_id" in (event := json.loads(each.value))
    }
    assert found[mine["metric_id"]]["tenant"] == "acme"
    assert allowed["metric_id"] in found
    assert not {other["metric_id"], refused["metric_id"]} & found.keys()


async def test_bodies_that_are_too_large_broken_or_bombs_are_refused(gateway, gateway_settings, tokens):
    before = await count(gateway_settings)
    bomb = gzip.compress(b"\n" * 300 * MEBIBYTE)
    zipped = NDJSON | {"Content-Encoding": "gzip"}
    protobuf = {"Content-Type": "application/x-protobuf"}
    with memory_below(gateway, 150):
        async with gateway.client(tokens["emitter"]) as client:
            port, token = client.base_url.port, tokens["emitter"].encode()
            large = connected(port, POST % token + b"Content-Length: %d\r\n\r\n" % (8 * MEBIBYTE + 1))
            assert answers(await asyncio.to_thread(everything, large)) == [413]
            large.close()
            for _ in range(3):
                assert (await post(client, bomb, zipped)).status_code == 413
                answer = await client.post("/v1/traces", content=bomb, headers=protobuf | {"Content-Encoding": "gzip"})
                assert answer.status_code == 413
            assert (await post(client, b"[" * 100_000, {"Content-Type": "application/json"})).status_code == 400
            for target in ("/v1/traces", "/v1/logs"):
                for body in (b"\xff" * 1_000, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x04" * 50_000):
                    answer = await client.post(target, content=body, headers=protobuf)
                    assert answer.status_code == 400, body[:10]
    assert await count(gateway_settings) == before


def test_slow_bodies_and_floods_of_headers_end_and_others_are_served_meanwhile(gateway, tokens):
    port, token = int(gateway.url.rpartition(":")[2]), tokens["emitter"].encode()
    slow = [connected(port, POST % token + b"Content-Length: 100\r\n\r\nx") for _ in range(20)]
    header = connected(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: %b\r\n" % (b"a" * 1_000) * 40)
    assert answers(everything(header)) in ([400], [])
    many = connected(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 20_000)
    assert answers(everything(many)) in ([400], [])
    assert gateway.ready()
    began = time.monotonic()
    statuses = [answers(everything(each)) for each in slow]
    for each in (*slow, header, many):
        each.close()
    assert statuses == [[408]] * 20
    assert time.monotonic() - began < 15


async def test_pages_of_other_origins_and_other_host_names_reach_nothing(gateway, tokens):
    async with gateway.client(tokens["emitter"]) as client:
        asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        answer = await client.options("/v1/executions", headers=asked)
        assert "access-control-allow-origin" not in answer.headers
        named = await client.options("/v1/executions", headers=asked | {"Origin": "https://console.example.com"})
        assert named.headers["access-control-allow-origin"] == "https://console.example.com"
        rebound = await post(client, lines(execution()), NDJSON | {"Host": f"evil.example:{client.base_url.port}"})
        assert rebound.status_code == 421


async def test_very_many_tool_names_of_one_token_take_bounded_memory(gateway, gateway_settings, tokens):
    """The caches of families and partitions keep 65,536 names each, and nothing else is kept by name."""
    before = await count(gateway_settings)
    names, batch = 200_000, 5_000
    async with gateway.client(tokens["emitter"]) as client:

        async def send(first):
            body = "\n".join(
                f'{{"tool_name":"mcp:s{first}:{number}-{"n" * 40}","status":"success","emitter_id":"e"}}'
                for number in range(first, first + batch)
            )
            answer = await post(client, body)
            assert answer.json() == {"accepted": batch, "rejected": []}

        for first in range(0, names // 2, batch):
            await send(first)
        with memory_below(gateway, 40):  # the caches are full
            for first in range(names // 2, names, batch):
                await send(first)
    async with gateway.client(tokens["reader"]) as reader:
        metrics = (await reader.get("/metrics")).text
        assert len(metrics) < 50_000
        assert "nnnn" not in metrics
    assert await count(gateway_settings) == before + names


def test_a_client_that_goes_away_leaves_nothing_behind(gateway, tokens):
    port, token = int(gateway.url.rpartition(":")[2]), tokens["emitter"].encode()
    with memory_below(gateway, 60):
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", port)) as left:
                left.sendall(POST % token + b"Content-Length: 8000000\r\n\r\n" + b"x" * 100_000)
    assert gateway.ready()
