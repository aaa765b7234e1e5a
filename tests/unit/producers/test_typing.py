"""A guarded function has the very type it had: mypy says so, in strict mode."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.limits import BUILD_S

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]
CASES = Path(__file__).parent / "typed" / "guarded.py"


def test_mypy_sees_the_same_types_through_a_guard_and_finds_every_wrong_call():
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", "--no-error-summary", str(CASES)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    errors = set(re.findall(r":(\d+): error: .*\[([a-z-]+)\]$", found.stdout, re.MULTILINE))
    wanted = {
        (str(number), code)
        for number, line in enumerate(CASES.read_text().splitlines(), 1)
        for code in re.findall(r"# error: \[([a-z-]+)\]", line)
    }
    assert len(wanted) > 5
    assert errors == wanted, found.stdout + found.stderr
