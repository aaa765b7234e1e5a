"""Executions a second through one core of the gateway, beside a bare Starlette echo of the same bytes, in one run.

python -m tests.bench.gateway [--batch 100]

A third server shows what is possible with the same packages: it only decodes the executions and sends them to Kafka. It has no access
control, limits, metrics, ids or times of its own, and it doesn't notice clients that leave. The exit code is 3 if the gateway takes less
than half of what that server does. An echo does too little to compare it with: to decode and send a batch of 100 takes three times as long.

All are real processes behind the same uvicorn protocol as the gateway's. The clients are a process of their own: 64 connections, each with
one batch at a time. A server's own CPU time is measured, so what else runs on the machine matters little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchgear.emitter.outbox import Outbox
from switchgear.emitter.record_batch import RecordBatch, RunAnswer
from switchgear_cli.topics import ensure_topics
from switchgear_gateway.publisher import LINGER_S, MAX_EVENTS
from switchgear_http.server import collect_seldom, make_server
from switchgear_http.sockets import listen
from switchgear_schemas.settings import Settings
from switchgear_schemas.wire import Execution
from tests.bench.intervals import with_spread
from tests.bench.targets import exit_code
from tests.support.kafka import running_kafka
from tests.support.running_gateway import execution, running_gateway

BATCH: Final = 100
CONNECTIONS: Final = 64
ROUNDS: Final = 3
ROUND_S: Final = 4.0
WARM_UP_S: Final = 2.0
REFUSED_PAUSE_S: Final = 0.2
LEAST: Final = 0.5
"""Of what a server does that only decodes and sends."""


def body(batch: int) -> bytes:
    """Return a batch as a client sends it: mostly successes, of a few tools."""
    found = []
    for number in range(batch):
        fields = {
            "tool_name": f"mcp:server-{number % 4}:tool-{number % 20}",
            "execution_time_ms": 12.5 + number,
            "recorded_at": "2026-11-26T02:00:00.123456Z",
            "emitter_id": "planner@host-4711-1f3a9c",
            "service": "planner",
            "session_id": f"session-{number % 10}",
        }
        if number % 10 == 0:
            fields |= {
                "status": "error",
                "error_class": "server",
                "error_type": "HTTPStatusError",
                "error_message": "503 Service Unavailable",
            }
        found.append(json.dumps(execution(**fields)))
    return "\n".join(found).encode()


async def echo(request: Request) -> Response:
    """Answer with the body."""
    return Response(await request.body(), media_type="application/x-ndjson")


def serve_echo(port: multiprocessing.Queue[int]) -> None:
    """Serve the echo. Runs in a process of its own."""
    asyncio.run(_serve(echo, port))


async def _serve(handler: Callable[[Request], Awaitable[Response]], port: multiprocessing.Queue[int]) -> None:
    with listen("127.0.0.1:0", "") as listening:
        port.put(listening.getsockname()[1])
        app = Starlette(routes=[Route("/v1/executions", handler, methods=["POST"])])
        collect_seldom()
        await make_server(app).serve(sockets=[listening])


class _Answer(RunAnswer):
    """Counts what Kafka has acknowledged of a request."""

    def __init__(self, left: list[int], count: int, done: asyncio.Future[None]) -> None:
        self._left, self._count, self._done = left, count, done

    def __call__(self, reason: str | None) -> None:
        assert reason is None, reason
        self._left[0] -= self._count
        if not self._left[0]:
            self._done.set_result(None)

    def part(self, first: int, count: int) -> _Answer:
        return _Answer(self._left, count, self._done)


def serve_least(settings: Settings, port: multiprocessing.Queue[int]) -> None:
    """Serve executions with the least work that brings them to Kafka. Runs in a process of its own."""
    decode = msgspec.json.Decoder(Execution).decode_lines

    async def serve() -> None:
        outbox = Outbox(
            settings.kafka, settings.topics.executions, limit=MAX_EVENTS, compression=None, linger_s=LINGER_S
        )

        async def post(request: Request) -> Response:
            content = await request.body()
            runs: dict[str, list[bytes]] = {}
            values = content.split(b"\n")
            for value, event in zip(values, decode(content), strict=True):
                runs.setdefault(event.tool_name, []).append(value)
            done = asyncio.get_running_loop().create_future()
            left = [len(values)]
            outbox.offer(RecordBatch(tool, run, _Answer(left, len(run), done)) for tool, run in runs.items())
            await done
            return Response(b'{"accepted":%d,"rejected":[]}' % len(values), media_type="application/json")

        sending = asyncio.create_task(outbox.run())
        while not outbox.knows_partitions:  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(0.05)
        await _serve(post, port)
        sending.cancel()

    asyncio.run(serve())


def send(port: int, seconds: float, batch: int, sent: multiprocessing.Queue[int]) -> None:
    """Send batches for some seconds, and put how many were answered."""
    sent.put(asyncio.run(_send(port, seconds, body(batch))))


async def _send(port: int, seconds: float, content: bytes) -> int:
    head = b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
    request = head % len(content) + content
    until = time.monotonic() + seconds

    async def connection() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.monotonic() < until:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            if answer.startswith(b"HTTP/1.1 200"):
                count += 1
            else:  # on a busy machine Kafka may not answer for a second
                assert answer.startswith((b"HTTP/1.1 429", b"HTTP/1.1 503")), answer
                await asyncio.sleep(REFUSED_PAUSE_S)
        writer.close()
        return count

    return sum(await asyncio.gather(*(connection() for _ in range(CONNECTIONS))))


def batches(port: int, seconds: float, batch: int) -> int:
    """Return how many batches a server answered in a round."""
    sent: multiprocessing.Queue[int] = multiprocessing.Queue()
    client = multiprocessing.Process(target=send, args=(port, seconds, batch, sent))
    client.start()
    count = sent.get(timeout=seconds + 60)
    client.join()
    return count


def per_core(process: psutil.Process, port: int, seconds: float, batch: int) -> float:
    """Return executions per second of the server's CPU time."""
    before = sum(process.cpu_times()[:2])
    count = batches(port, seconds, batch)
    return batch * count / (sum(process.cpu_times()[:2]) - before)


@contextmanager
def serving(serve: Callable[..., None], *given: object) -> Iterator[tuple[psutil.Process, int]]:
    """Run a server in a process of its own. Yield the process and its port."""
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(*given, port), daemon=True)
    server.start()
    try:
        found = port.get(timeout=60)
        while True:
            try:
                socket.create_connection(("127.0.0.1", found), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield psutil.Process(server.pid), found
    finally:
        server.terminate()
        server.join(10)


def main() -> int:
    """Measure in turns and print a table. Return 3 if the gateway is too slow."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway", description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=BATCH, help="executions in a request")
    batch: int = parser.parse_args().batch
    multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka:
        settings = kafka.settings(gateway_http="127.0.0.1:0", topic_partitions=12)
        asyncio.run(ensure_topics(settings))
        with (
            serving(serve_echo) as echo_server,
            serving(serve_least, settings) as least_server,
            running_gateway(settings, Path(folder) / "gateway.log") as gateway,
        ):
            ours = psutil.Process(gateway.child.pid), int(gateway.url.rpartition(":")[2])
            servers = (echo_server, least_server, ours)
            for each in servers:
                per_core(*each, WARM_UP_S, batch)
            rounds = [[per_core(*each, ROUND_S, batch) for each in servers] for _ in range(ROUNDS)]
    print(
        f"| batches of {batch} ({len(body(batch))} bytes) | executions a second and core | µs of CPU time a request "
        "| share of the echo | share of decode and send |"
    )
    print("|---|---|---|---|---|")
    names = ("bare Starlette echo of the same bytes", "decode and send to Kafka, nothing else", "switchgear gateway")
    share = 0.0
    for name, measured in zip(names, zip(*rounds, strict=True), strict=True):
        of_echo, of_least = (
            [one / of_a_round[place] for one, of_a_round in zip(measured, rounds, strict=True)] for place in (0, 1)
        )
        rate, share = statistics.median(measured), statistics.median(of_least)
        print(
            f"| {name} | {rate:,.0f} | {batch * 1e6 / rate:,.0f} | {with_spread(of_echo)} | {with_spread(of_least)} |"
        )
    print(f"\n{os.cpu_count()} cores, median of {ROUNDS} rounds of {ROUND_S:g} s each, in turns")
    return exit_code(met=share >= LEAST)  # the gateway is the last one


if __name__ == "__main__":
    sys.exit(main())
