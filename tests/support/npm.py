"""Packages of npm, as a lock file names them."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_LIMIT_S: Final = 400
_STAMP: Final = ".installed-for"


def install_locked(folder: Path) -> None:
    """Install what the lock file of ``folder`` names, unless an earlier run has. Skip the test without npm.

    Raises:
        AssertionError: npm failed; with what it printed.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Node.js is not installed")
    wanted = hashlib.sha256()
    for name in ("package.json", "package-lock.json"):
        wanted.update((folder / name).read_bytes())
    stamp = folder / "node_modules" / _STAMP  # npm ci removes it with the folder
    with (Path(sys.prefix) / "npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted.hexdigest():
            return
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
        stamp.write_text(wanted.hexdigest())
