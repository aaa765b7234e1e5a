"""Run an example as a reader does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.limits import FACTOR

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def expect_example(name: str, expected: list[str]) -> None:
    """Run ``examples/<name>`` and find the expected lines, or parts of lines, in order."""
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=100 * FACTOR,  # importing a framework alone takes up to 20 s of processor time
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("SWITCHGEAR_")},
    )
    assert done.returncode == 0, done.stderr
    at = 0
    for line in expected:
        found = done.stdout.find(line, at)
        assert found >= 0, f"{line!r} is missing, or out of order, in:\n{done.stdout}\n{done.stderr}"
        at = found + len(line)
