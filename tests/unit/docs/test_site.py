"""The documentation site."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.limits import BUILD_S
from tests.support.snippets import REPOSITORY

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder with the built site. A broken link, anchor or reference fails the build."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_site_builds_without_a_broken_link_or_reference(site):
    assert (site / "index.html").is_file()


def test_pages_of_the_site_load_nothing_from_another_host(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(\w+:[^"]*|//[^"]*)"', page.read_text())
        loaded += re.findall(
            r'<link(?=[^>]* rel="(?:stylesheet|preconnect|icon)")[^>]* href="(\w+:[^"]*)"', page.read_text()
        )
        assert not loaded, page.name


def test_the_command_line_page_documents_the_options_of_every_command(site):
    page = (site / "reference" / "command-line.html").read_text()
    assert 'id="switchgear-dead-retry"' in page
    assert "<code>--data-dir PATH</code>" in page


def test_every_page_is_in_the_navigation(site):
    navigation = re.findall(r'<a href="([^"#:]+)" class="md-nav__link', (site / "404.html").read_text())
    pages = {str(page.relative_to(REPOSITORY / "docs")) for page in (REPOSITORY / "docs").rglob("*.md")}
    shown = {link.removeprefix("/").replace(".html", ".md") or "index.md" for link in navigation}
    assert pages <= shown
