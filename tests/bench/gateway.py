"""Executions a second through one core of the gateway, beside a bare Starlette echo of the same bytes, in one run.

python -m tests.bench.gateway [--batch 100]      exit code 1 if the gateway takes less than half of what the echo does

Both servers are real processes behind the same uvicorn protocol as the gateway's. The clients are a third process: 64 connections, each with
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchgear_access.server import listen, make_server
from switchgear_cli.topics import ensure_topics
from tests.support.gateway import execution, running_gateway
from tests.support.kafka import running_kafka

BATCH: Final = 100
CONNECTIONS: Final = 64
ROUNDS: Final = 5
ROUND_S: Final = 4.0
WARM_UP_S: Final = 2.0
REFUSED_PAUSE_S: Final = 0.2
LEAST: Final = 0.5


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
    with listen("127.0.0.1:0", "") as listening:
        port.put(listening.getsockname()[1])
        app = Starlette(routes=[Route("/v1/executions", echo, methods=["POST"])])
        asyncio.run(make_server(app).serve(sockets=[listening]))


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
def echoing() -> Iterator[tuple[psutil.Process, int]]:
    """Run the echo."""
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve_echo, args=(port,), daemon=True)
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
    """Measure in turns and print a table. Return 1 if the gateway is too slow."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway", description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=BATCH, help="executions in a request")
    batch: int = parser.parse_args().batch
    multiprocessing.set_start_method("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_kafka() as kafka,
        echoing() as (echo_process, echo_port),
    ):
        settings = kafka.settings(gateway_http="127.0.0.1:0", topic_partitions=12)
        asyncio.run(ensure_topics(settings))
        with running_gateway(settings, Path(folder) / "gateway.log") as gateway:
            ours, port = psutil.Process(gateway.child.pid), int(gateway.url.rpartition(":")[2])
            per_core(echo_process, echo_port, WARM_UP_S, batch)
            per_core(ours, port, WARM_UP_S, batch)
            rounds = [
                (per_core(echo_process, echo_port, ROUND_S, batch), per_core(ours, port, ROUND_S, batch))
                for _ in range(ROUNDS)
            ]
    bare, measured = (statistics.median(values) for values in zip(*rounds, strict=True))
    share = statistics.median(one / other for other, one in rounds)
    print(
        f"| | executions a second and core, batches of {batch} ({len(body(batch))} bytes) | µs of CPU time a request |"
    )
    print("|---|---|---|")
    print(f"| bare Starlette echo of the same bytes | {bare:,.0f} | {batch * 1e6 / bare:,.0f} |")
    print(f"| switchgear gateway, acknowledged by Kafka | {measured:,.0f} | {batch * 1e6 / measured:,.0f} |")
    print(f"| share | {share:.2f} ({min(b / a for a, b in rounds):.2f} to {max(b / a for a, b in rounds):.2f}) | |")
    print(f"\n{os.cpu_count()} cores, median of {ROUNDS} rounds of {ROUND_S:g} s each, in turns")
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
