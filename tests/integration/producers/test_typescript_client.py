"""The tests of the TypeScript client pass, with Node.js and what its lock file names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.support.limits import READY_S
from tests.support.npm import install_locked, printed
from tests.support.snippets import REPOSITORY

FOLDER = REPOSITORY / "producers" / "typescript"
SCENARIOS = REPOSITORY.parent / "shared" / "acceptance" / "scenarios.json"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed"),
]


@pytest.fixture(scope="module")
def built():
    """The client and its tests, installed, checked for their form, and compiled: what `npm test` does first."""
    for folder in (FOLDER, FOLDER / "runtimes"):
        install_locked(folder)
    printed(FOLDER, "npm", "run", "pretest")


@pytest.mark.deep
@pytest.mark.usefixtures("built")
def test_package_of_the_typescript_client_installs_builds_and_passes_its_tests():
    given = {"SWITCHGEAR_SCENARIOS": str(SCENARIOS)} if SCENARIOS.exists() else {}
    shown = printed(FOLDER, "npm", "test", "--ignore-scripts", extra=given)
    assert re.search(r"^# fail 0$", shown, re.MULTILINE)
    if given:
        assert re.search(r"^# skipped 0$", shown, re.MULTILINE)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("built")
def test_packed_client_works_in_every_run_time_and_the_documentation_says_so():
    shown = printed(FOLDER, "node", "runtimes/matrix.mjs", timeout_s=800)
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) == 7, shown
    page = (REPOSITORY / "docs" / "reference" / "typescript.md").read_text()
    assert [row for row in rows if row not in page and "not run:" not in row] == []


def test_typescript_client_and_the_sdk_have_the_same_texts_and_classes():
    script = FOLDER / "test" / "parity" / "generate.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lock_file_of_the_typescript_client_names_no_registry():
    for folder in (FOLDER, FOLDER / "runtimes"):
        assert "resolved" not in (folder / "package-lock.json").read_text()
