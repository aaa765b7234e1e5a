"""The how-to pages: their code is typed and all of it is run by some test, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.snippets import REPOSITORY, files, programs, snippets

FOLDER = REPOSITORY / "docs" / "howto"
PAGES = sorted(str(page.relative_to(REPOSITORY)) for page in FOLDER.glob("*.md"))
BY_SCENARIO = {  # run by the test of that name in tests/integration/howto
    "fastapi.md", "django.md", "celery.md", "lambda.md", "notebooks.md", "tls-and-sasl.md", "installing.md",
}  # fmt: skip
ALONE = [program for page in PAGES if page.rsplit("/", 1)[1] not in BY_SCENARIO for program in programs(page)]


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.name)
def test_a_program_of_a_page_runs_as_it_stands(program):
    assert not program.connects
    program.run()


@pytest.mark.parametrize("page", sorted(BY_SCENARIO))
def test_a_page_with_a_scenario_of_its_own_has_a_test_of_its_name(page):
    name = page.removesuffix(".md").replace("-", "_")
    assert page in (REPOSITORY / "tests" / "integration" / "howto" / f"test_{name}.py").read_text()


def test_the_code_of_the_pages_is_typed(tmp_path):
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
        cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_to_a_page_and_a_heading(page):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", (REPOSITORY / page).read_text()):
        name, _, heading = target.partition("#")
        text = (FOLDER / name).resolve().read_text()
        headings = {
            re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
            for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not heading or heading in headings, target


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_linked_from_the_start(page):
    assert f"](../howto/{page.rsplit('/', 1)[1]})" in (REPOSITORY / "docs" / "guide" / "start.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_no_python_that_is_no_file_and_no_program(page):
    run = {block for program in programs(page) for block in program.blocks} | set(files(page).values())
    assert set(snippets(page, "python")) <= run
