"""Run a program before and after somebody followed the skill, and compare what they say."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST_LINES = 12
"""What a person should have to read: added and removed lines of a program."""


def expect_instrumented(name: str, refusal: str) -> None:
    """Run both programs with the interpreter of the tests.

    Args:
        name: The file in ``before`` and ``after``.
        refusal: What the model must read after five failures.

    Raises:
        AssertionError: The broken tool is called on, the model doesn't read the refusal, or the change is large.
    """
    before, after = (HERE / when / name for when in ("before", "after"))
    without, guarded = _lines(before), _lines(after)
    assert without[-1] == "10 calls reached the tool"
    assert guarded[-1] == "5 calls reached the tool"
    assert guarded[:5] == without[:5]
    assert [line.startswith(refusal) for line in guarded[5:-1]] == [True] * 5, guarded
    compared = difflib.ndiff(before.read_text().splitlines(), after.read_text().splitlines())
    changed = [line for line in compared if line[0] in "+-" and line[2:].strip()]
    assert len(changed) <= MOST_LINES, changed


def _lines(program: Path) -> list[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHGEAR_")}
    done = subprocess.run(
        [sys.executable, str(program)],
        env=kept | {"SWITCHGEAR_LOCAL": "true"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
