"""Where a running ``switchgear up`` can be found, whatever its data folder is.

``up.json`` in the data folder has the addresses. One small file for each running ``up``, in a folder of the user, names the
data folder. Both are written when ``up`` is ready and removed when it ends.
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

from switchgear_cli.local.file_lock import FileLock
from switchgear_schemas.settings import Settings

RECORD_NAME: Final = "up.json"
LOCK_NAME: Final = "up.lock"
_MAX_PATH_BYTES: Final = 8192


class UpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and process ids of one running system. ``data_dir`` is for people to read."""

    pid: int
    data_dir: str
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
        """Take the record away, also from the user's folder; harmless where there is none."""
        (data_dir / RECORD_NAME).unlink(missing_ok=True)
        with suppress(OSError):
            _pointer(data_dir).unlink()

    @staticmethod
    def announce(data_dir: Path) -> None:
        """Name ``data_dir`` in the user's folder of running systems; harmless where it is named already.

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
        """The record of a system that runs on ``data_dir`` now; None where none does.

        A record that a killed ``up`` left behind is not believed: nobody holds the folder's lock.
        """
        if not FileLock(data_dir / LOCK_NAME).is_held():
            return None
        try:
            return msgspec.json.decode((data_dir / RECORD_NAME).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None  # it is starting or stopping, or is of another version: not to be found this way

    @classmethod
    def all_running(cls, default_dir: Path) -> list[UpRecord]:
        """The records of every system that this user runs now, oldest first.

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
        """The lines of shell that name this system to every process started after them."""
        values = {
            "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": self.kafka_bootstrap_servers,
            "SWITCHGEAR_API_URL": self.api_url,
        }
        if self.topic_prefix != Settings.model_fields["topic_prefix"].default:
            values["SWITCHGEAR_TOPIC_PREFIX"] = self.topic_prefix
        return [f"export {name}={shlex.quote(value)}" for name, value in values.items()]


def _pointers() -> Path:
    """The user's folder of running systems.

    Raises:
        OSError: The user has no home.
    """
    try:
        return user_state_path("switchgear") / "up" / platform.node()  # a home may be shared by machines
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "This user has no home", "HOME") from None


def _pointer(data_dir: Path) -> Path:
    return _pointers() / hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]


def _named_by(pointer: Path) -> Path | None:
    """The data folder that a file of ours names; None, and the file removed, where no system runs on it."""
    if not _is_ours(pointer):
        return None
    with suppress(OSError, ValueError):  # a path may not have a NUL, which is what a crash of the machine leaves
        with pointer.open("rb") as stream:
            folder = Path(os.fsdecode(stream.read(_MAX_PATH_BYTES)))
        if folder.is_absolute() and FileLock(folder / LOCK_NAME).is_held():
            return folder.resolve()
    with suppress(OSError):
        pointer.unlink()  # an `up` that starts on the folder at this instant puts it back within a second
    return None


def _is_ours(file: Path) -> bool:
    """Whether this user owns the file: what another one wrote could send our commands anywhere."""
    try:
        return file.lstat().st_uid == os.geteuid()
    except OSError:
        return False
