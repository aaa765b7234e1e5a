"""Whose folder it is: a lock that the operating system takes back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"
_PREFIX: Final = "process-"
_FORSAKEN_AFTER_S: Final = 300.0
"""A folder without a lock for so long is nobody's: a living owner makes it anew at its next look, every minute or two."""


class Claim:
    """One process's hold on one folder under the spool's root. ``flock``: needs a local file system, and POSIX."""

    __slots__ = ("_file", "folder")

    def __init__(self, folder: Path, file: int | None) -> None:
        self.folder = folder
        self._file = file

    @classmethod
    def fresh(cls, root: Path) -> Claim:
        """A new folder of this process's own, readable by its user alone.

        Raises:
            OSError: ``root`` can't be made or written to.
        """
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}"
        hidden = root / f".{name}"  # until it is locked: others take over what they see without an owner
        hidden.mkdir(mode=0o700)
        claim = cls(hidden, None)
        try:
            claim._file = _locked(hidden / _LOCK, create=True)
            claim.folder = hidden.rename(root / name)
        except BaseException:  # it is tried again and again, so nothing may stay behind
            claim.release()
            with contextlib.suppress(OSError):  # rmtree wants a descriptor, and there may be none
                (hidden / _LOCK).unlink(missing_ok=True)
                hidden.rmdir()
            raise
        return claim

    @classmethod
    def leftovers(cls, root: Path) -> Iterator[Claim]:
        """The folders whose processes are dead, each now held by us, oldest first; those of other users are theirs.

        Raises:
            OSError: ``root`` can't be read.
        """
        folders = [each for each in root.iterdir() if each.name.startswith(_PREFIX) and each.is_dir()]
        for folder in sorted(folders, key=_age):
            # Not found: another one took it over, and is done with it. No permission: another user's.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                file = _locked(folder / _LOCK, create=_forsaken(folder))
                if file is not None:
                    yield cls(folder, file)

    def renew(self) -> bool:
        """Hold the folder still: its lock looks new to whoever deletes old files, and is made anew where it is gone.

        Returns:
            False when another process holds the folder by now.

        Raises:
            OSError: the folder is gone, or can't be looked at.
        """
        path = self.folder / _LOCK
        if self._holds():
            os.utime(path)
            return True
        file = _locked(path, create=True)
        if file is None:
            return False
        self.release()
        self._file = file
        return True

    def remove(self) -> None:
        """Delete the folder, where it is ours still, and let go."""
        with contextlib.suppress(OSError):
            if self._holds():
                shutil.rmtree(self.folder, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Let go: whoever comes next may have the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _holds(self) -> bool:
        """The lock that is in the folder is the one that we hold."""
        if self._file is None:
            return False
        try:
            return os.path.samestat((self.folder / _LOCK).stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False


def _forsaken(folder: Path) -> bool:
    """It has had no lock for long: deleting it changed the folder."""
    return not (folder / _LOCK).exists() and time.time() - folder.stat().st_mtime > _FORSAKEN_AFTER_S


def _age(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _locked(path: Path, *, create: bool) -> int | None:
    """A descriptor that holds the lock; None where somebody else does, or the file was removed meanwhile."""
    try:
        import fcntl  # noqa: PLC0415 - POSIX alone has it
    except ImportError as error:
        raise OSError("a spool needs the file locks of POSIX") from error
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(file).st_ino:
            return file
    except BlockingIOError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None
