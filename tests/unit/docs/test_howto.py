"""The code of the how-to pages has correct types, and a test runs all of it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.limits import BUILD_S
from tests.support.snippets import REPOSITORY, files, programs, snippets
from tests.support.table import table

FOLDER = REPOSITORY / "docs" / "howto"
PAGES = sorted(str(page.relative_to(REPOSITORY)) for page in FOLDER.glob("*.md"))
BY_SCENARIO = {  # the test of that name in tests/integration/howto runs these
    "fastapi.md", "django.md", "celery.md", "lambda.md", "notebooks.md", "tls-and-sasl.md", "installing.md",
}  # fmt: skip
ALONE = [program for page in PAGES if page.rsplit("/", 1)[1] not in BY_SCENARIO for program in programs(page)]


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.name)
def test_program_of_a_howto_page_runs_and_prints_what_the_page_says(program):
    assert not program.connects
    program.run()


@table("page", sorted(BY_SCENARIO))
def test_howto_page_with_a_scenario_has_a_test_of_its_name(page):
    name = page.removesuffix(".md").replace("-", "_")
    assert page in (REPOSITORY / "tests" / "integration" / "howto" / f"test_{name}.py").read_text()


@pytest.mark.deep
def test_code_of_the_howto_pages_has_correct_types(tmp_path):
    for page in PAGES:
        shown = files(page) or {program.name: program.code for program in programs(page)}
        for name, code in shown.items():
            if not page.endswith("notebooks.md") and not name.endswith(
                "settings.py"
            ):  # cells that await; a file's last line
                (tmp_path / f"{re.sub(r'[^a-z]', '_', f'{page}_{name}')}.py").write_text(code)
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir=.mypy_cache/howto", "--strict", "--ignore-missing-imports", "--allow-untyped-decorators",
         "--allow-subclassing-any", "--no-warn-unused-ignores", "--no-error-summary",
         *sorted(str(path) for path in tmp_path.rglob("*.py"))],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


@table("page", PAGES)
def test_howto_page_is_linked_from_the_start_page(page):
    assert f"](../howto/{page.rsplit('/', 1)[1]})" in (REPOSITORY / "docs" / "guide" / "start.md").read_text()


@table("page", PAGES)
def test_howto_page_shows_only_python_that_is_a_file_or_a_program(page):
    run = {block for program in programs(page) for block in program.blocks} | set(files(page).values())
    assert set(snippets(page, "python")) <= run
