"""``up.json``: where a running ``switchgear up`` can be found. Written when it is ready, removed when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from switchgear_cli.local.file_lock import FileLock

RECORD_NAME: Final = "up.json"
LOCK_NAME: Final = "up.lock"


class UpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and process ids of one running system."""

    pid: int
    kafka_bootstrap_servers: str
    api_url: str
    topic_prefix: str
    started_at: float
    pids: dict[str, int] = {}

    def write(self, data_dir: Path) -> None:
        """Replace the record of ``data_dir`` in one step: a reader sees a whole one or none."""
        staging = data_dir / f"{RECORD_NAME}.new"
        staging.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
        staging.rename(data_dir / RECORD_NAME)

    @staticmethod
    def remove(data_dir: Path) -> None:
        """Take the record away; harmless where there is none."""
        (data_dir / RECORD_NAME).unlink(missing_ok=True)

    @classmethod
    def running(cls, data_dir: Path) -> UpRecord | None:
        """The record of a system that runs on ``data_dir`` now; None where none does.

        A record that a killed ``up`` left behind is not believed: nobody holds the folder's lock.
        """
        if not FileLock(data_dir / LOCK_NAME).is_held():
            return None
        try:
            return msgspec.json.decode((data_dir / RECORD_NAME).read_bytes(), type=cls)
        except (FileNotFoundError, PermissionError, msgspec.DecodeError):
            return None  # it is starting or stopping, or is of another version: not to be found this way
