"""Identifiers that sort by the time they were made (UUID version 7, RFC 9562)."""

from __future__ import annotations

import os
import socket
from functools import cache

from uuid_utils import uuid7


def mint_metric_id() -> str:
    """A fresh time-ordered identifier, in the canonical 36-character form."""
    return str(uuid7())


def metric_id_run() -> tuple[str, tuple[str, ...]]:
    """A start and 4,096 endings: each ending after the start is a fresh identifier, in rising order, at a tenth of the usual cost.

    A run shares one random number, and counts in the last 12 of its 74 bits (RFC 9562, 6.2, method 1).
    """
    return str(uuid7())[:-3], _endings()


@cache
def _endings() -> tuple[str, ...]:
    return tuple(f"{number:03x}" for number in range(4096))


def mint_emitter_id(service: str = "") -> str:
    """An identifier of this process: unique for its life, readable in a circuit's record (``planner@host-4711-1f3a…``)."""
    name = service or "process"
    return f"{name}@{socket.gethostname()}-{os.getpid()}-{str(uuid7())[-12:]}"
