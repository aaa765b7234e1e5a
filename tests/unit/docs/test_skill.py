"""The skill by which a coding agent instruments a code base: its code runs, and its steps work on real programs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
import yaml

from tests.skill.run import expect_instrumented
from tests.support.limits import READY_S
from tests.support.snippets import REPOSITORY, programs, snippets

SKILL = "skills/instrument-with-switchgear/SKILL.md"
TEXT = (REPOSITORY / SKILL).read_text()
PROGRAMS = programs(SKILL)


def test_front_matter_says_what_the_skill_is_for_and_has_the_name_of_its_folder():
    _, front, _ = TEXT.split("---\n", 2)
    said = yaml.safe_load(front)
    assert said["name"] == "instrument-with-switchgear"
    assert "Use when" in said["description"]
    assert len(said["description"]) <= 1024


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if not each.connects and not each.tests], ids=lambda each: each.name
)
def test_program_of_the_skill_prints_what_the_skill_says(program):
    program.run()


def test_client_that_the_skill_makes_starts_from_the_environment(monkeypatch):
    (program,) = [each for each in PROGRAMS if each.connects]
    monkeypatch.setenv("SWITCHGEAR_LOCAL", "true")
    program.run()


@pytest.mark.slow
def test_test_that_the_skill_shows_passes(tmp_path):
    (program,) = [each for each in PROGRAMS if each.tests]
    (tmp_path / "test_agent.py").write_text(program.code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_all_python_of_the_skill_is_in_a_program_that_runs():
    shown = snippets(SKILL, "python")
    assert shown == [block for program in PROGRAMS for block in program.blocks]
    for block in shown:
        ast.parse(block)


def test_the_skill_has_the_line_of_each_adapter_as_the_page_about_integrations_has_it():
    page = (REPOSITORY / "docs/integrations/index.md").read_text()
    made = page.partition("<!-- adapters")[2].partition("<!-- end of the adapters")[0]
    lines = dict(re.findall(r"^\| \[(.+)\]\(\S+\) \| (`.+`) \|$", made, re.MULTILINE))
    assert len(lines) > 10
    for title, line in lines.items():
        assert f"| {title} | {line} |" in TEXT


def test_pages_that_the_skill_names_exist():
    named = set(re.findall(r"`(docs/[\w/.-]+)`", TEXT))
    assert len(named) > 4
    for path in named:
        assert (REPOSITORY / path).exists(), path


@pytest.mark.slow
def test_a_loop_over_function_calls_stops_calling_a_broken_tool_after_the_skills_steps():
    expect_instrumented("openai_loop.py", "The tool mcp:weather:get_forecast is unavailable (circuit open).")


@pytest.mark.slow
def test_an_mcp_client_stops_calling_a_hanging_tool_after_the_skills_steps():
    expect_instrumented("mcp_client.py", "The tool get_forecast is unavailable (circuit open).")
