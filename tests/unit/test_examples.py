"""Every example runs without Kafka, key or network, and prints the expected lines in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.limits import READY_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXPECTED = {
    "agent_loop.py": [
        "turn 1  offered: web_search, archive_search",
        "web_search('Louvre') -> web_search failed: search.example refused the connection",  # fail
        "circuit mcp:search:web: closed -> open",  # open
        "turn 4  offered: web_search, archive_search",
        "message: [tool status] These tools are unavailable: web_search (use archive_search instead). ",
        "web_search('Louvre') -> Louvre: open 9 to 17 (last month) [from mcp:archive:search]",  # fallback
        "archive_search('Prado')",
        "offered: web_search, archive_search",
        "circuit mcp:search:web: open -> half_open",  # probe
        "circuit mcp:search:web: half_open -> closed",  # recover
        "web_search('Uffizi') -> Uffizi: open 9 to 18",
        "web_search('Tate') -> Tate: open 9 to 18",
        "the broken engine was called 3 times, the repaired one 2 times",
    ],
    "mcp_style_tools.py": [
        *["backup   no such city: Atlantis"] * 5,
        "backup   backup: rain in Oslo",
        *["weather  Error executing tool: [Errno 111] Connection refused"] * 3,
        "weather  REFUSED: The tool mcp:weather:forecast is unavailable (circuit open).",
        "offered  ['weather_forecast', 'backup_forecast']",
        "message  [tool status] These tools are unavailable: weather_forecast",
    ],
}


def test_every_example_has_expected_lines_here_or_beside_the_tests_of_its_framework():
    others = EXAMPLES.parent / "tests" / "frameworks"
    elsewhere = {
        name
        for path in others.glob("test_*.py")
        for name in re.findall(r'expect_example\("(\w+\.py)"', path.read_text())
    }
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED) | elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_example_prints_the_expected_lines(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("SWITCHGEAR_")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    at = 0
    for line in EXPECTED[name]:
        found = done.stdout.find(line, at)
        assert found >= 0, f"{line!r} is missing, or out of order, in:\n{done.stdout}"
        at = found + len(line)
