"""docs/llms.txt lists every page, as the site's navigation does."""

from __future__ import annotations

import importlib.util
import re

from tests.support.snippets import REPOSITORY

DOCS = REPOSITORY / "docs"


def _module():
    spec = importlib.util.spec_from_file_location("llms", DOCS / "llms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_for_models_is_what_make_docs_writes():
    assert (DOCS / "llms.txt").read_text() == _module().text(), "run `python docs/llms.py`"


def test_the_list_for_models_has_each_page_once_and_no_other():
    listed = re.findall(r"^- \[.+\]\(([^)]+)\)", (DOCS / "llms.txt").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_files_that_the_list_for_models_names_beside_pages_exist():
    named = re.findall(r"(?<!\w)\.\./[\w/.-]+\w", (DOCS / "llms.txt").read_text())
    assert len(named) == 2
    for path in named:
        assert (DOCS / path).is_file(), path
