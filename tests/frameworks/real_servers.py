"""Servers and clients of other people, in the versions that the tests are made for."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.frameworks.environments import INSTALL_LIMIT_S, Environment, python_of

FROM_PYPI: Final = Environment(
    "mcp-server-time", "2026.10.19", (), more=("mcp-server-git==2026.10.19", "mcp-server-fetch==2026.10.24"), bare=True
)
OLDER: Final = Environment("mcp-server-sqlite", "2025.4.25", (), more=("mcp<2",), bare=True)
"""An archived server, which needs an older SDK."""
INSPECTOR: Final = ("@modelcontextprotocol/inspector@2.12.0", "node@22.23.3")
"""The second one runs the first, and the suite below."""
FROM_NPM: Final = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "@playwright/mcp@0.0.83",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",  # the first one with 2026-07-28
    *INSPECTOR,
)


def install_python(environment: Environment = FROM_PYPI) -> Path:
    """Install servers from PyPI, unless they are there. Return the folder with their commands."""
    return python_of(environment).parent


def install_node(packages: Sequence[str] = FROM_NPM) -> Path:
    """Install packages from npm, unless they are there. Return the folder with ``node_modules``. One test process installs them at a time."""
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()
    target = Path(sys.prefix) / "servers" / digest[:16]
    if not (target / "installed").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        command = [
            shutil.which("npm") or "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(target),
        ]
        subprocess.run([*command, *packages], check=True, timeout=INSTALL_LIMIT_S, stdout=subprocess.DEVNULL)
        (target / "installed").touch()
    return target
