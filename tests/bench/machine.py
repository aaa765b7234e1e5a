"""What a figure depends on besides the code: the machine, the versions and the date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("aiokafka", "chdb", "faust-streaming", "greenlet", "msgspec", "numpy", "pydantic", "redis", "uvloop")


def describe() -> dict[str, Any]:
    """Return the machine, the versions of Python and of the packages that matter, the commit and the date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def sentence(found: dict[str, Any]) -> str:
    """Return a description in a sentence, for the top of a table."""
    return (
        f"{found['date']}, commit {found['commit']}, {found['cores']} cores of {found['processor']},"
        f" {found['memory_gib']} GiB, {found['system']}, {found['python']}."
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
