"""Servers and clients of other people, in the versions that the tests are made for."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

FROM_PYPI: Final = ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19", "mcp-server-fetch==2026.10.24")
OLDER: Final = ("mcp-server-sqlite==2025.4.25", "mcp<2")
"""An archived server, which needs an older SDK."""
FROM_NPM: Final = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "@playwright/mcp@0.0.83",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",  # the first one with 2026-07-28
    "@modelcontextprotocol/inspector@2.12.0",
    "node@22.23.3",  # these two need it
)
_LIMIT_S: Final = 300


def install_python(packages: Sequence[str] = FROM_PYPI) -> Path:
    """Install servers from PyPI into an environment of their own, unless they are there. Return the folder with their commands."""
    return _installed(packages, _from_pypi) / "bin"


def install_node() -> Path:
    """Install what comes from npm, unless it is there. Return the folder with ``node_modules``."""
    return _installed(FROM_NPM, _from_npm)


def _installed(packages: Sequence[str], install: Callable[[Path, Sequence[str]], None]) -> Path:
    """Return the folder of these packages, beside the environments of the frameworks. One test process installs at a time."""
    digest = hashlib.sha256("\n".join((sys.version, *packages)).encode()).hexdigest()
    target = Path(sys.prefix) / "servers" / digest[:16]
    if not (target / "installed").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        install(target, packages)
        (target / "installed").touch()
    return target


def _from_pypi(target: Path, packages: Sequence[str]) -> None:
    if uv := os.environ.get("UV") or shutil.which("uv"):
        _run(uv, "venv", "-q", "--allow-existing", "--python", sys.executable, str(target))
        _run(uv, "pip", "install", "-q", "--python", str(target / "bin/python"), *packages)
    else:
        _run(sys.executable, "-m", "venv", str(target))
        _run(str(target / "bin/pip"), "install", "-q", *packages)


def _from_npm(target: Path, packages: Sequence[str]) -> None:
    _run(
        shutil.which("npm") or "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(target),
        *packages,
    )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=_LIMIT_S, stdout=subprocess.DEVNULL)
