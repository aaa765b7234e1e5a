"""What of a release needs no build: its notes. The rest is in tests/integration/deploy/test_release.py."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.support.snippets import REPOSITORY

HOME = "https://github.com/example/example"
CHANGELOG = """# Changelog

## [0.2.0] - 2027-01-01

- [A guard](docs/guide/guard.md#options), [a page](https://example.org/x), [below](#fixed).

### Fixed

- One.

## [0.1.0] - 2026-12-01

- The first.
"""


def _module():
    spec = importlib.util.spec_from_file_location("release", REPOSITORY / "deploy" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notes_are_the_section_of_the_version_with_links_to_its_tag():
    assert _module().notes_of(CHANGELOG, "0.2.0", HOME) == (
        f"- [A guard]({HOME}/blob/v0.2.0/docs/guide/guard.md#options), [a page](https://example.org/x), [below](#fixed).\n"
        "\n### Fixed\n\n- One.\n"
    )
    assert _module().notes_of(CHANGELOG, "0.1.0", HOME) == "- The first.\n"


def test_a_version_without_a_section_is_no_release():
    with pytest.raises(SystemExit, match=r"no section ## \[0\.3\.0\]"):
        _module().notes_of(CHANGELOG, "0.3.0", HOME)


def test_the_list_of_contents_is_about_extras_that_exist():
    extras = re.findall(r"^([\w-]+) = \[", (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(_module().EXTRAS.split(",")) <= set(extras)
