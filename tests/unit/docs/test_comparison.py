"""docs/comparison.md: what it compares, it describes, and its versions are those that we measured."""

from __future__ import annotations

import datetime as dt
import re
import tomllib

from tests.support.snippets import REPOSITORY

PAGE = (REPOSITORY / "docs" / "comparison.md").read_text()
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n\n(.+?)\s*(?=\n## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
COMPARED = re.findall(r"^\| \[([^\]]+)\]\(#", PAGE, re.MULTILINE)


def test_each_project_of_the_table_has_a_paragraph_that_says_what_was_read():
    assert len(COMPARED) == 9
    for name in COMPARED:
        assert re.search(r"\*Read[^*]*:\s.+\*$", SECTIONS[name], re.DOTALL), name


def test_the_page_says_when_it_was_true_and_where_we_do_not_compete():
    dated = re.search(r"^Switchgear beside nine other projects, as of (\d{4}-\d\d-\d\d)\.", PAGE, re.MULTILINE)
    assert dated
    dt.date.fromisoformat(dated[1])
    assert SECTIONS["Where we do not compete"].count("\n* ") >= 6


def test_versions_that_the_page_says_are_those_of_the_benchmarks():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    measured = dict(each.split("==") for each in project["optional-dependencies"]["bench"] if "==" in each)
    assert f"the wheel {measured['aws-lambda-powertools']}." in SECTIONS["AWS Powertools"].replace("\n", " ")
    assert f"interlock-cb {measured['interlock-cb']}." in SECTIONS["interlock"]
