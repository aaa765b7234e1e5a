"""Alerts under test: a receiver that fails, circuit records, and the process."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from standardwebhooks.webhooks import Webhook

from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from tests.support.http_server import served

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the example of the Standard Webhooks specification


class Received:
    """What arrived, in the order of arrival, also what was answered with an error."""

    def __init__(self, failing: float, seed: int = 3) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.failing = failing
        self.failures = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Check the signature, keep the request, and return the status to answer with."""
        Webhook(SECRET).verify(body, headers)
        with self._lock:
            fails = self._random.random() < self.failing
            self.failures += fails
            if fails and self._random.random() < 0.5:
                return 503  # as if it had never arrived
            self.requests.append((headers["webhook-id"], json.loads(body)))
            return 500 if fails else 200  # a failure after the work is done

    def changes(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the changes of incidents with the id of their message, in the order of arrival."""
        with self._lock:
            return [(name, each) for name, body in self.requests for each in body["data"].get("incidents", [])]

    def ids(self, kind: str) -> set[str]:
        """Return the incidents that were opened, updated or resolved, without the fleet's name."""
        return {without_fleet(change["incident"]) for _, change in self.changes() if change["change"] == kind}


def without_fleet(incident: str) -> str:
    """Return an incident's id without the fleet's name in front of it."""
    fleet, _, rest = incident.partition("/")
    assert fleet.count("-") >= 1, f"{incident} has no fleet and cluster in front"
    return rest


@contextmanager
def receiving(failing: float = 0.0) -> Iterator[tuple[Received, str]]:
    """Serve a receiver of Standard Webhooks. Yield what it receives, and its URL."""
    received = Received(failing)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = received.take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield received, f"{url}/hook"


def write_rules(path: Path, url: str, more: str = "") -> Path:
    """Write an alerts file with one receiver, ``hook``, and return its path."""
    path.write_text(
        f'[receivers.hook]\ntype = "webhook"\nurl = "{url}"\nsecrets = ["env:HOOK_SECRET"]\n\n[[routes]]\nreceivers = ["hook"]\n\n{more}'
    )
    return path


def circuit_record(circuit: str, state: str, generation: int, at: float | None = None, **more: Any) -> Circuit:
    """Return a circuit's record. Its version is its generation, as if nothing else had changed."""
    opened = state == "open"
    return Circuit(
        **{
            "circuit_id": circuit,
            "tool_name": circuit,
            "state": state,
            "version": generation + 1,
            "generation": generation,
            "cause": Cause(rule="consecutive_failures", value=5, threshold=5)
            if opened
            else Cause(rule="probe_succeeded", value=1, sample=1),
            "changed_at": datetime.fromtimestamp(time.time() if at is None else at, UTC),
            "last_error": "ConnectionError: refused",
        }
        | more
    )


async def publish(settings: Settings, records: Sequence[Circuit]) -> None:
    """Write records to the circuits topic, as a worker does."""
    producer = AIOKafkaProducer(**settings.kafka.options(), linger_ms=5)
    await producer.start()
    try:
        sent = [
            await producer.send(settings.topics.circuits, key=each.circuit_id.encode(), value=each.to_bytes())
            for each in records
        ]
        for each in sent:
            await each
    finally:
        await producer.stop()
