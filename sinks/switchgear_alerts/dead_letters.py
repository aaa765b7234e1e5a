"""The file of messages that were given up."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

from switchgear_alerts import texts
from switchgear_alerts.messages import Message
from switchgear_schemas.times import rfc3339

NAME: Final = "dead.jsonl"
MAX_BYTES: Final = 20 * 1024 * 1024


class DeadLetterFile:
    """Appends lines of JSON to ``dead.jsonl``. A full file moves to ``dead.jsonl.1``, so the two bound the space.

    A line has no secret: it holds the message, not the request.

    Args:
        folder: Created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._lock = threading.Lock()

    def write(self, message: Message, reason: str, now: float) -> None:
        """Append a message. It is on the disk when this returns. Threads wait for each other.

        Args:
            message: What was given up.
            reason: Why.
            now: Seconds since 1970.

        Raises:
            OSError: It can't be written.
        """
        record: dict[str, Any] = {
            "at": rfc3339(now),
            "receiver": message.receiver,
            "reason": reason,
            "id": message.id,
            "title": texts.title(message),
            "message": message,
        }
        with self._lock:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.file.exists() and self.file.stat().st_size > MAX_BYTES:
                self.file.replace(self.file.with_name(f"{NAME}.1"))
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "ab") as file:  # noqa: PTH123 - opened with its mode above
                file.write(msgspec.json.encode(record) + b"\n")
                file.flush()
                os.fsync(file.fileno())
