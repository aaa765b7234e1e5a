"""The record of a running ``switchgear up``, by which other commands find it.

``up.json`` in the data folder has the addresses. One small file for each running ``up``, in a folder of the user, names the
data folder. ``up`` writes both when it is ready and removes them when it ends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from platformdirs import user_state_path

from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.file_lock import FileLock
from switchgear_schemas.settings import Settings

RECORD_NAME: Final = "up.json"
LOCK_NAME: Final = "up.lock"
_MAX_PATH_BYTES: Final = 8192


class UpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and process ids of one running system. ``data_dir`` is informative."""

    pid: int
    data_dir: str
    kafka_bootstrap_servers: str
    api_url: str
    topic_prefix: str
    started_at: float
    family_pattern: str = DEFAULT_PATTERN
    gateway_url: str = ""
    worker_urls: tuple[str, ...] = ()
    alerts_url: str | None = None
    pids: dict[str, int] = {}

    def write(self, data_dir: Path) -> None:
        """Replace the record of ``data_dir`` in one step, so that a reader never sees half of it."""
        staging = data_dir / f"{RECORD_NAME}.new"
        staging.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
        staging.rename(data_dir / RECORD_NAME)

    @staticmethod
    def remove(data_dir: Path) -> None:
        """Remove the record, also from the user's folder. Does nothing if there is none."""
        (data_dir / RECORD_NAME).unlink(missing_ok=True)
        with suppress(OSError):
            _pointer(data_dir).unlink()

    @staticmethod
    def announce(data_dir: Path) -> None:
        """Name ``data_dir`` in the user's folder of running systems. Does nothing if it is named already.

        Raises:
            OSError: The folder cannot be made or written.
        """
        pointer, named = _pointer(data_dir), os.fsencode(data_dir)
        if pointer.is_file() and pointer.read_bytes() == named:
            return
        pointer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staging = pointer.with_name(f".{pointer.name}")
        staging.touch(mode=0o600)
        staging.write_bytes(named)
        staging.rename(pointer)

    @classmethod
    def running(cls, data_dir: Path) -> UpRecord | None:
        """Return the record of the system that runs on ``data_dir`` now, or None.

        The record of a killed ``up`` doesn't count: no process holds the folder's lock.
        """
        if not FileLock(data_dir / LOCK_NAME).is_held():
            return None
        try:
            return msgspec.json.decode((data_dir / RECORD_NAME).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None  # it is starting or stopping, or is of another version

    @classmethod
    def all_running(cls, default_dir: Path) -> list[UpRecord]:
        """Return the records of every system that this user runs now, oldest first. Remove what killed ones left.

        What killed ones left in the user's folder is removed.

        Args:
            default_dir: A data folder to look at in any case.
        """
        folders = {default_dir.resolve(): None}  # a dict keeps the order, and each folder once
        with suppress(OSError):
            for pointer in sorted(_pointers().glob("[!.]*")):
                if (folder := _named_by(pointer)) is not None:
                    folders[folder] = None
        found = [record for folder in folders if _is_ours(folder / RECORD_NAME) and (record := cls.running(folder))]
        return sorted(found, key=lambda record: record.started_at)

    def exports(self) -> list[str]:
        """Return the lines of shell that name this system to every process started after them."""
        values = {
            "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": self.kafka_bootstrap_servers,
            "SWITCHGEAR_API_URL": self.api_url,
        }
        if self.topic_prefix != Settings.model_fields["topic_prefix"].default:
            values["SWITCHGEAR_TOPIC_PREFIX"] = self.topic_prefix
        if self.family_pattern != DEFAULT_PATTERN:
            values["SWITCHGEAR_FAMILY_PATTERN"] = self.family_pattern
        return [f"export {name}={shlex.quote(value)}" for name, value in values.items()]


def _pointers() -> Path:
    """Return the user's folder of running systems.

    Raises:
        OSError: The user has no home.
    """
    try:
        return user_state_path("switchgear") / "up" / platform.node()  # machines may share a home
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "This user has no home", "HOME") from None


def _pointer(data_dir: Path) -> Path:
    return _pointers() / hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]


def _named_by(pointer: Path) -> Path | None:
    """Return the data folder that a file names, or None if no system runs on it; then the file is removed."""
    if not _is_ours(pointer):
        return None
    with suppress(OSError, ValueError):  # a path can't have a NUL, and a crash of the machine leaves some
        with pointer.open("rb") as stream:
            folder = Path(os.fsdecode(stream.read(_MAX_PATH_BYTES)))
        if folder.is_absolute() and FileLock(folder / LOCK_NAME).is_held():
            return folder.resolve()
    with suppress(OSError):
        pointer.unlink()  # an ``up`` that starts on the folder at this moment writes the file again within a second
    return None


def _is_ours(file: Path) -> bool:
    """Return whether this user owns the file. Another user's file could send commands anywhere."""
    try:
        return file.lstat().st_uid == os.geteuid()
    except OSError:
        return False
