"""The tests of the TypeScript client pass, with Node.js and what its lock file names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.snippets import REPOSITORY

FOLDER = REPOSITORY / "producers" / "typescript"
SCENARIOS = REPOSITORY.parent / "shared" / "acceptance" / "scenarios.json"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed"),
]


@pytest.mark.deep
def test_package_of_the_typescript_client_installs_builds_and_passes_its_tests():
    given = {"SWITCHGEAR_SCENARIOS": str(SCENARIOS)} if SCENARIOS.exists() else {}
    for command in (["npm", "ci", "--no-audit", "--no-fund"], ["npm", "test"]):
        done = subprocess.run(
            command, cwd=FOLDER, env=os.environ | given, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    assert re.search(r"^# fail 0$", done.stdout, re.MULTILINE)
    if given:
        assert re.search(r"^# skipped 0$", done.stdout, re.MULTILINE)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_packed_client_works_in_every_run_time_and_the_documentation_says_so():
    done = subprocess.run(
        ["npm", "run", "--silent", "matrix"], cwd=FOLDER, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 7, done.stdout
    shown = (REPOSITORY / "docs" / "reference" / "typescript.md").read_text()
    assert [row for row in rows if row not in shown and "not run:" not in row] == []


def test_typescript_client_and_the_sdk_have_the_same_texts_and_classes():
    script = FOLDER / "test" / "parity" / "generate.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lock_file_of_the_typescript_client_names_no_registry():
    for folder in (FOLDER, FOLDER / "runtimes"):
        assert "resolved" not in (folder / "package-lock.json").read_text()
