"""Kafka records made by hand, and executions as a producer sends them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

NOON_MS = 1_795_262_400_000


@dataclass
class HandMadeRecord:
    """The part of a ConsumerRecord that the writer reads."""

    topic: str = "executions"
    partition: int = 3
    offset: int = 0
    timestamp: int = NOON_MS
    key: bytes | None = b"search"
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()


def execution(tool_name: str = "search", **fields: Any) -> bytes:
    """Return an execution as JSON. A field that is None is left out."""
    given = {
        "metric_id": str(uuid.uuid4()),
        "tool_name": tool_name,
        "status": "success",
        "execution_time_ms": 12.5,
        "recorded_at": datetime.now(UTC).isoformat(),
    } | fields
    return json.dumps({name: value for name, value in given.items() if value is not None}).encode()


def records(*values: bytes | None, first: int = 0, **fields: Any) -> list[HandMadeRecord]:
    """Return records of one partition at consecutive offsets."""
    return [HandMadeRecord(offset=first + place, value=value, **fields) for place, value in enumerate(values)]
