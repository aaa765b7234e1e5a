"""The programs of the guide run, print what the page says and are typed. Those that need a broker run in tests/integration."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.limits import BUILD_S
from tests.support.snippets import REPOSITORY, guide, snippets
from tests.support.table import table

PROGRAMS = guide()
ALONE = [program for program in PROGRAMS if not program.connects and not program.tests]
FOR_PYTEST = [program for program in PROGRAMS if program.tests]


@pytest.mark.slow
@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.name)
def test_program_of_the_guide_runs_and_prints_what_the_page_says(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program.run()


@pytest.mark.slow
def test_tests_that_the_guide_shows_pass(tmp_path):
    for number, program in enumerate(FOR_PYTEST):
        (tmp_path / f"test_guide_{number}.py").write_text(program.code)
    if not FOR_PYTEST:
        return
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--asyncio-mode=auto", "-p", "switchgear.testing.pytest_plugin", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.deep
def test_programs_of_the_guide_have_correct_types(tmp_path):
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"p{number:03d}.py").write_text(f"# {program.name}\n{program.code}")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir=.mypy_cache/guide", "--strict", "--ignore-missing-imports", "--no-error-summary",
         *sorted(str(path) for path in tmp_path.glob("*.py"))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )  # fmt: skip
    names = "\n".join(f"p{number:03d} is {program.name}" for number, program in enumerate(PROGRAMS))
    assert found.returncode == 0, f"{found.stdout}\n{names}"


@table("page", sorted((REPOSITORY / "docs" / "guide").glob("*.md")), ids=lambda page: page.name)
def test_page_of_the_guide_shows_only_python_that_runs(page):
    shown = snippets(str(page.relative_to(REPOSITORY)), "python")
    run = [block for program in PROGRAMS if program.document.endswith(f"/{page.name}") for block in program.blocks]
    assert shown == run
    for block in shown:
        ast.parse(block)
