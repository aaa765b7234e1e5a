"""What hostile requests cost the servers: memory, time, and how long each holds the event loop.

Each attack runs in a process of its own against the gateway's or the API's application, without Kafka and without a socket. A heartbeat in
the same loop measures the longest hold. ``peak`` is the memory of the process above what it had before, and ``times`` that by the size of
the unpacked body.

    python -m tests.bench.bounds [ATTACK …]
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import httpx
from prometheus_client import CollectorRegistry

from switchgear_gateway.app import create_app
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.executions import ExecutionRoutes
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.receiver import OtlpReceiver
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import Role
from switchgear_http.server import ConcurrencyLimit, collect_seldom
from switchgear_http.tokens import new_token
from switchgear_schemas.settings import Settings

BEAT_S = 0.001
NDJSON = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip", "Prefer": "respond-async"}
PROTOBUF = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
JSON = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


def peak_bytes() -> int:
    """Return the most memory that this process had since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def reset_peak() -> None:
    """Let the peak begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


class Watch:
    """Measures the longest hold of the loop, the time, and the memory."""

    async def __aenter__(self) -> Self:
        gc.collect()
        reset_peak()
        self._before = peak_bytes()
        self.hold_s = 0.0
        self._beating = asyncio.create_task(self._beat())
        await asyncio.sleep(0.05)
        self.hold_s = 0.0
        self._began = time.perf_counter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.took_s = time.perf_counter() - self._began
        await asyncio.sleep(2 * BEAT_S)
        self._beating.cancel()
        self.peak = peak_bytes() - self._before

    async def _beat(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.perf_counter()
            self.hold_s = max(self.hold_s, now - last - BEAT_S)
            last = now


def gateway() -> Any:
    """Return the gateway's application. Its publisher takes executions and never sends them."""
    publisher = Publisher(Settings(), CollectorRegistry())
    publisher._outbox.knows_partitions = True
    shared = Shared()
    parts = [
        ExecutionRoutes(publisher, EmitterClocks(300), shared),
        OtlpReceiver(Ingest(), Senders(Authenticator(), _Acknowledging(), shared).of, budget=shared.budget),
    ]
    return create_app(parts, Settings(), registry=CollectorRegistry(), authenticator=Authenticator())


class _Acknowledging:
    """A publisher that forgets what it took, as if Kafka had it."""

    rejected = 0

    async def submit(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(refused=[], wait=self._nothing)

    async def _nothing(self) -> list[int]:
        return []


async def posted(path: str, body: bytes, headers: dict[str, str], at_once: int = 1) -> tuple[Watch, str]:
    """Send a body, and return what it cost and how it was answered."""
    transport = httpx.ASGITransport(gateway())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=300) as client:
        small = {"tool_name": "a", "status": "success"}
        await client.post("/v1/executions", content=gzip.compress(json.dumps(small).encode()), headers=NDJSON)
        collect_seldom()
        async with Watch() as watch:
            answers = await asyncio.gather(*(client.post(path, content=body, headers=headers) for _ in range(at_once)))
    return watch, ", ".join(sorted({str(each.status_code) for each in answers}))


def field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf."""
    size, left = bytearray([number << 3 | 2]), len(content)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    size.append(left)
    return bytes(size) + content


def request(records: bytes) -> bytes:
    """Return a request of OTLP around encoded spans."""
    return field(1, field(2, records))


def calls(number: int) -> bytes:
    """Return a request with small tool calls."""
    from tests.unit.producers.gateway.otlp.support import span_request  # noqa: PLC0415 - not needed by all

    return span_request(
        *[{"id": each + 1, "trace": each.to_bytes(16, "big")} for each in range(1, number)]
    ).SerializeToString()


def traceback_of(number: int) -> str:
    lines = (
        f'  File "/srv/app/module_{number}_{line}.py", line {line}, in call\n    token = ask(key)\n'
        for line in range(20)
    )
    return "Traceback (most recent call last):\n" + "".join(lines)


def executions(number: int, **fields: Any) -> bytes:
    now = datetime.now(UTC).isoformat()
    return b"\n".join(
        json.dumps(
            {"tool_name": f"tool-{each}", "status": "error", "recorded_at": now, "error_message": traceback_of(each)}
            | fields
        ).encode()
        for each in range(number)
    )


Cost = tuple[Watch, str, int]


async def _http(path: str, body: bytes, headers: dict[str, str], at_once: int = 1) -> Cost:
    watch, answer = await posted(path, gzip.compress(body, 6), headers, at_once)
    return watch, answer, len(body) * at_once


async def tracebacks() -> Cost:
    """8,000 executions with a traceback each."""
    return await _http("/v1/executions", executions(8_000), NDJSON)


async def tools() -> Cost:
    """10,000 minimal executions of a tool each."""
    body = b"\n".join(b'{"tool_name":"%d","status":"error"}' % each for each in range(10_000))
    return await _http("/v1/executions", body, NDJSON)


async def tools_100() -> Cost:
    """100 such requests at once."""
    body = b"\n".join(b'{"tool_name":"%d","status":"error"}' % each for each in range(10_000))
    return await _http("/v1/executions", body, NDJSON, 100)


async def large_executions() -> Cost:
    """32 MiB of executions."""
    return await _http("/v1/executions", executions(10_000, metadata={"x": "y" * 1_000}), NDJSON)


async def empty_values() -> Cost:
    """A JSON array of 500,000 numbers."""
    return await _http("/v1/executions", b"[" + b"0," * 499_999 + b"0]", JSON)


async def empty_attributes() -> Cost:
    """One span with 4 million empty attributes."""
    return await _http("/v1/traces", request(field(2, b"\x4a\x00" * (4 * 1_048_576 - 20))), PROTOBUF)


async def empty_attributes_30() -> Cost:
    """30 of them at once."""
    return await _http("/v1/traces", request(field(2, b"\x4a\x00" * (4 * 1_048_576 - 20))), PROTOBUF, 30)


async def empty_spans() -> Cost:
    """4 million empty spans."""
    return await _http("/v1/traces", request(b"\x12\x00" * (4 * 1_048_576 - 20)), PROTOBUF)


async def nested_values() -> Cost:
    """20,000 spans with a list of lists each."""
    nested = b""
    for _ in range(30):
        nested = field(5, field(1, nested))
    span = field(2, field(9, field(1, b"a") + field(2, nested)) * 2)
    return await _http("/v1/traces", request(span * min(20_000, 8_000_000 // len(span))), PROTOBUF)


async def small_calls() -> Cost:
    """20,000 small tool calls, one trace each."""
    return await _http("/v1/traces", calls(20_000), PROTOBUF)


async def json_objects() -> Cost:
    """8 MB of JSON spans that are empty objects."""
    return await _http(
        "/v1/traces", b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 2_700_000 + b"{}]}]}]}", JSON
    )


async def json_attributes() -> Cost:
    """8 MB of JSON: one span with 200,000 attributes."""
    attribute = b'{"key":"k","value":{"stringValue":"v"}}'
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[%b]}]}]}]}'
    return await _http("/v1/traces", body % b",".join([attribute] * 200_000), JSON)


async def json_calls() -> Cost:
    """8 MB of JSON: as many tool calls as fit."""
    from google.protobuf import json_format  # noqa: PLC0415

    from tests.unit.producers.gateway.otlp.support import span_request  # noqa: PLC0415

    given = json_format.MessageToDict(span_request(*[{"id": each + 1} for each in range(14_000)]))
    for of_scope in given["resourceSpans"][0]["scopeSpans"]:
        for number, span in enumerate(of_scope["spans"]):
            span["traceId"], span["spanId"] = os.urandom(16).hex(), f"{number + 1:016x}"
    return await _http("/v1/traces", json.dumps(given, separators=(",", ":")).encode(), JSON)


async def half_logins() -> Cost:
    """140 logins from one address without the end of their body. The answer is that of a login from another address."""
    token, _ = new_token("planner", [Role.READ])

    async def login(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    from tests.unit.http.test_middleware import made  # noqa: PLC0415

    app = ConcurrencyLimit(made(tokens=[token], app=login, role_of=lambda _scope: None), 128)

    async def post(address: str, *, more: bool) -> int:
        statuses: list[int] = []
        parts = [{"type": "http.request", "body": b"{", "more_body": more}]

        async def receive() -> Any:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "method": "POST", "path": "/v1/session", "headers": [(b"host", b"localhost")]}
        await app(scope | {"client": (address, 1)}, receive, send)
        return statuses[0]

    async with Watch() as watch:
        crowd = [asyncio.create_task(post("10.0.0.1", more=True)) for _ in range(140)]
        await asyncio.sleep(0.1)
        answer = await post("10.0.9.9", more=False)
    for each in crowd:
        each.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    return watch, str(answer), 140


ATTACKS: dict[str, Callable[[], Coroutine[Any, Any, Cost]]] = {
    each.__name__: each
    for each in (
        half_logins, tracebacks, tools, tools_100, large_executions, empty_values, empty_attributes, empty_attributes_30, empty_spans,
        nested_values, small_calls, json_objects, json_attributes, json_calls,
    )
}  # fmt: skip


def measure(name: str) -> None:
    """Run one attack and print what it cost."""
    watch, answer, size = asyncio.run(ATTACKS[name]())
    print(
        f"{name:22}{size / 1e6:9.2f} MB{watch.peak / 1e6:9.1f} MB{watch.peak / size:8.1f}{watch.took_s:9.2f} s"
        f"{1000 * watch.hold_s:9.0f} ms   {answer}",
        flush=True,
    )


def main() -> None:
    """Run the attacks one after the other."""
    print(f"{'attack':22}{'unpacked':>12}{'peak':>12}{'times':>8}{'took':>11}{'hold':>12}   answer")
    for name in sys.argv[1:] or ATTACKS:
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(name,))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
