"""Identifiers that sort by the time they were made (UUID version 7, RFC 9562)."""

from __future__ import annotations

import os
import socket

from uuid_utils import uuid7


def mint_metric_id() -> str:
    """A fresh time-ordered identifier, in the canonical 36-character form."""
    return str(uuid7())


def mint_emitter_id(service: str = "") -> str:
    """An identifier of this process: unique for its life, readable in a circuit's record (``planner@host-4711-1f3a…``)."""
    name = service or "process"
    return f"{name}@{socket.gethostname()}-{os.getpid()}-{str(uuid7())[-12:]}"
