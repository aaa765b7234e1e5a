"""Run an example as its users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"


def expect_example(name: str, expected: list[str]) -> None:
    """Run an example in a process of its own. Assert that it prints the expected lines in order, among others."""
    found = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", str(FOLDER / name)],
        env={key: value for key, value in os.environ.items() if not key.startswith("SWITCHGEAR_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    lines = iter(found.stdout.splitlines())
    missing = [line for line in expected if line not in lines]  # each search goes on where the last one ended
    assert not missing, f"{missing} not in, or not in this order:\n{found.stdout}"
