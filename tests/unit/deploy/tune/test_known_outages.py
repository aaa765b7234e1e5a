"""Outages that a person gives in a file."""

from __future__ import annotations

import json

import pytest

from switchgear_cli.tune.known_outages import read_outages
from switchgear_cli.tune.outages import Outage
from switchgear_schemas.errors import WrongUsageError

pytestmark = pytest.mark.slow


def read(tmp_path, content, tools=("mcp:a", "mcp:b", "llm:c")):
    path = tmp_path / "outages.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_outages(path, tools)


def test_a_glob_stands_for_the_tools_that_it_matches_and_no_tool_for_all(tmp_path):
    found = read(tmp_path, [{"tool": "mcp:*", "start": 10, "end": 20}, {"start": 30, "end": 40.5}])
    assert [each for each in found if each.start == 10] == [Outage("mcp:a", 10, 20), Outage("mcp:b", 10, 20)]
    assert {each.tool for each in found if each.start == 30} == {"mcp:a", "mcp:b", "llm:c"}


def test_an_instant_is_a_date_and_time_in_utc_unless_it_has_an_offset(tmp_path):
    entry = {"tool": "llm:c", "start": "2026-03-01T12:00:00", "end": "2026-03-01T13:30:00+01:00"}
    assert read(tmp_path, [entry]) == [Outage("llm:c", 1_772_366_400, 1_772_368_200)]


def test_outages_of_one_tool_that_overlap_become_one(tmp_path):
    spans = [{"start": 10, "end": 20}, {"tool": "llm:c", "start": 15, "end": 30}, {"start": 40, "end": 50}]
    assert read(tmp_path, spans, ["llm:c"]) == [Outage("llm:c", 10, 30), Outage("llm:c", 40, 50)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not JSON"),
        ({"03": []}, "is not an array"),
        ([{"start": 1}], "entry 1 is not an outage with start and end"),
        ([{"start": 1, "end": 2}, 7], "entry 2 is not an outage"),
        ([{"start": "yesterday", "end": 2}], "entry 1 is not an outage"),
        ([{"start": 3, "end": 2}], "entry 1 has an end before its start"),
    ],
)
def test_a_file_that_holds_something_else_is_wrong_usage_with_an_example(tmp_path, content, message):
    with pytest.raises(WrongUsageError, match=message) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith("--outages ")
    assert "Write e.g. [{" in caught.value.hint


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WrongUsageError, match=r"--outages .*gone.json can't be read: No such file"):
        read_outages(tmp_path / "gone.json", ["a"])
