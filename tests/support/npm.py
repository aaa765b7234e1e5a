"""npm and what it installs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.limits import BUILD_S

_STAMP: Final = ".installed-for"
_FAILED: Final = re.compile(r"^ *not ok .*(?:\n(?! *(?:ok|not ok|# Subtest)).*){0,30}", re.MULTILINE)


def printed(folder: Path, *command: str, timeout_s: float = BUILD_S, extra: Mapping[str, str] | None = None) -> str:
    """Run a command in ``folder``, with ``extra`` variables, and return what it printed.

    Raises:
        AssertionError: It failed; with the failed tests of ``node --test``, if it is that, and the end of what it printed.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | dict(extra or {}),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, "\n".join([*_FAILED.findall(done.stdout), done.stdout[-5_000:], done.stderr[-5_000:]])
    return done.stdout


def install_locked(folder: Path) -> None:
    """Install what the lock file of ``folder`` names, unless an earlier run has. Skip the test without npm.

    Raises:
        AssertionError: npm failed.
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
        printed(folder, npm, "ci", "--no-audit", "--no-fund", "--prefer-offline")
        stamp.write_text(wanted.hexdigest())
