"""Each wall of the page about security has a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.support.snippets import REPOSITORY

PAGE = REPOSITORY / "docs" / "security.md"
WALLS = [
    line for line in PAGE.read_text().partition("\n## Walls\n")[2].partition("\n## ")[0].splitlines() if ".py`" in line
]


def test_the_table_has_all_walls():
    assert len(WALLS) > 30


@pytest.mark.parametrize("wall", WALLS, ids=[line.split("|")[1].strip() for line in WALLS])
def test_the_tests_of_a_wall_exist(wall):
    named = re.findall(r"`([\w/]+\.py)`", wall)
    assert named
    for path in named:
        assert re.search(r"^(?:async )?def test_", (REPOSITORY / "tests" / path).read_text(), re.MULTILINE), path
