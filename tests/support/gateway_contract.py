"""A small HTTP server that speaks the gateway's contract, as far as a client sees it, and has faults when a test wants them."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import uvicorn

from switchgear.testing import FakeClock, InMemoryFleet
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.waiting import until

CUT: Final = "cut"
"""Take the events, begin to answer, and close the connection."""
HANG: Final = "hang"
"""Never answer."""


@dataclass
class Answer:
    """What a request gets."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    takes: bool = False
    """Take the events all the same."""


@dataclass
class Request:
    """A request for ``POST /v1/executions``."""

    headers: dict[str, str]
    events: list[dict[str, Any]]


class GatewayServer:
    """The server. With a ``fleet``, events are folded and the circuits are those of the fleet.

    Args:
        fleet: Decides about the circuits.
        token: The token that requests need.
    """

    def __init__(self, fleet: InMemoryFleet | None = None, token: str | None = None) -> None:
        self.fleet = fleet
        self.token = token
        self.requests: list[Request] = []
        self.taken: list[dict[str, Any]] = []
        """Events that were taken, also if their answer got lost."""
        self.next_answers: deque[Answer | str] = deque()
        """Answers to executions before the usual ones, in order."""
        self.stream_headers: list[dict[str, str]] = []
        self.stream_queries: list[str] = []
        """Of each request for a stream."""
        self.circuits: dict[str, dict[str, Any]] = {}
        self.refuse_streams: Answer | None = None
        self.heartbeat: dict[str, Any] = {"fresh": True}
        self._streams: dict[asyncio.Queue[bytes | None], None] = {}
        self._versions: dict[str, int] = {}
        self._cursor = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._serve()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Close every connection and the port."""
        self.drop_streams()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(HAPPEN_S)
        self._listening.close()

    def start_again(self) -> None:
        """Listen on the same port again."""
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._serve()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def drop_streams(self) -> None:
        """Break the streams, as a restart of the gateway does."""
        self._in_loop(lambda: self._put(None))

    def send(self, event: str, data: Any) -> None:
        """Send an event to all streams."""
        self._in_loop(lambda: self._send(event, data))

    def forget(self) -> None:
        """Make the ids that clients have too old to resume."""
        self._in_loop(self._forget)

    def send_raw(self, data: bytes) -> None:
        """Send bytes to all streams as they are."""
        self._in_loop(lambda: self._put(data))

    def publish(self, record: dict[str, Any]) -> None:
        """Set a circuit, and send it to all streams."""
        self.circuits[record["circuit_id"]] = record
        self.send("circuit", record)

    def remove(self, circuit_id: str) -> None:
        """Remove a circuit."""
        del self.circuits[circuit_id]
        self.send("circuit", {"circuit_id": circuit_id, "removed": True})

    def follow_fleet(self) -> None:
        """Let the fleet's clock catch up, and send what changed to all streams."""
        self._in_loop(self._follow_fleet)

    # -- in the server's thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        config = uvicorn.Config(
            self._app, interface="asgi3", log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started)

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._listening]))

    def _in_loop(self, work: Any) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            work()
            return
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        loop.call_soon_threadsafe(run)
        assert done.wait(ANSWER_S)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self._loop = asyncio.get_running_loop()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            detail = {"title": "Unauthorized", "status": 401, "detail": "The token is unknown."}
            await _answer(send, Answer(401, detail))
        elif scope["path"] == "/v1/circuits/stream":
            self.stream_queries.append(scope["query_string"].decode())
            await self._stream(headers, receive, send)
        elif scope["path"] == "/v1/executions" and scope["method"] == "POST":
            await self._executions(headers, receive, send)
        else:
            await _answer(send, Answer(404, {"title": "Not Found", "status": 404}))

    async def _executions(self, headers: dict[str, str], receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        events = [json.loads(line) for line in body.split(b"\n")]
        self.requests.append(Request(headers, events))
        answer = self.next_answers.popleft() if self.next_answers else None
        if answer is None or answer == CUT or (isinstance(answer, Answer) and answer.takes):
            self._take(events)
        if answer is None:
            await _answer(send, Answer(200, {"accepted": len(events), "rejected": []}))
        elif answer == CUT:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
            await send({"type": "http.response.body", "body": b'{"accepted"', "more_body": True})
            raise ConnectionError("cut by the test")
        elif answer == HANG:
            await receive()
        else:
            assert isinstance(answer, Answer)
            await _answer(send, answer)

    def _take(self, events: list[dict[str, Any]]) -> None:
        self.taken += events
        if self.fleet is not None:
            self._follow_fleet()
            for event in events:
                self.fleet._send(event["tool_name"], json.dumps(event).encode(), True)
            self._follow_fleet()

    def _follow_fleet(self) -> None:
        assert self.fleet is not None
        self.fleet.advance(max(0.0, time.time() - self.fleet.clock.wall()))
        for circuit_id, circuit in self.fleet.circuits().items():
            if self._versions.get(circuit_id, 0) < circuit.version:
                self._versions[circuit_id] = circuit.version
                record = self.circuits[circuit_id] = circuit.to_dict()
                self._send("circuit", record)

    async def _stream(self, headers: dict[str, str], receive: Any, send: Any) -> None:
        self.stream_headers.append(headers)
        if self.refuse_streams is not None:
            await _answer(send, self.refuse_streams)
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        if headers.get("last-event-id") != f"c{self._cursor}":
            queue.put_nowait(self._event("snapshot", {"circuits": self.circuits}))
        queue.put_nowait(self._event("heartbeat", self.heartbeat))
        self._streams[queue] = None
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            kind = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
            while True:
                taken = asyncio.ensure_future(queue.get())
                await asyncio.wait([gone, taken], return_when=asyncio.FIRST_COMPLETED)
                if not taken.done():
                    taken.cancel()
                    return
                data = taken.result()
                if data is None:
                    raise ConnectionError("cut by the test")
                await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            gone.cancel()
            del self._streams[queue]

    def _forget(self) -> None:
        self._cursor += 1

    def _send(self, event: str, data: Any) -> None:
        self._cursor += 1
        self._put(self._event(event, data))

    def _put(self, data: bytes | None) -> None:
        for stream in self._streams:
            stream.put_nowait(data)

    def _event(self, event: str, data: Any) -> bytes:
        return f"id: c{self._cursor}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Any, answer: Answer) -> None:
    body = b"" if answer.body is None else json.dumps(answer.body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def gateway_server(fleet: InMemoryFleet | None = None, token: str | None = None) -> Iterator[GatewayServer]:
    """Run a server while the block runs."""
    server = GatewayServer(fleet, token)
    try:
        yield server
    finally:
        server.stop()


def fleet_of_now(policies: Any = None) -> InMemoryFleet:
    """Return a fleet whose clock begins now, because the events of real clients have real times."""
    return InMemoryFleet(policies, clock=FakeClock(time.time()))


def circuit(tool: str, state: str, version: int, **fields: Any) -> dict[str, Any]:
    """Return the record of a circuit."""
    return {
        "circuit_id": tool,
        "tool_name": tool,
        "state": state,
        "version": version,
        "generation": version,
        "changed_at": datetime.now(UTC).isoformat(),
        **fields,
    }
