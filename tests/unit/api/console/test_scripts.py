"""The parts of the console's pages that need no browser, tested with Node.js."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from switchgear_api.console.pages import ASSETS
from tests.support.limits import READY_S
from tests.support.table import table

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_modules_without_a_browser_pass_their_tests():
    files = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    done = subprocess.run(["node", "--test", *files], capture_output=True, text=True, timeout=READY_S, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE)


@table("path", sorted(ASSETS.rglob("js/**/*.js")), ids=lambda path: path.relative_to(ASSETS).as_posix())
def test_script_writes_no_markup_and_is_at_most_500_lines_long(path):
    text = path.read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function", text
    )
    assert len(text.splitlines()) <= 500
