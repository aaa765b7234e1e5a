"""The documentation site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

import switchgear
import switchgear.testing
from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app
from tests.support.snippets import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"


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
        timeout=280,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_builds_without_a_broken_link_or_reference(site):
    assert (site / "index.html").is_file()


def test_the_pages_of_the_site_load_nothing_from_another_host(site):
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


def test_the_python_page_has_every_public_name():
    page = (REFERENCE / "python.md").read_text()
    named = set(re.findall(r"^::: (\S+)$", page, re.MULTILINE))
    assert {f"switchgear.{name}" for name in switchgear.__all__} <= named
    assert {f"switchgear.testing.{name}" for name in switchgear.testing.__all__} <= named


def test_the_http_page_has_every_route():
    page = (REFERENCE / "http-api.md").read_text()
    named = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) ([^`]+)` \|", page, re.MULTILINE))
    app = create_app(SimpleNamespace(folder=None, embedded=False), Settings(), registry=CollectorRegistry())
    served = {(method, route.path.replace(":path", "")) for route in app.routes for method in route.methods}
    assert named == {(method, path) for method, path in served if method != "HEAD"}


def test_every_page_is_in_the_navigation():
    navigation = (REPOSITORY / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(REPOSITORY / "docs")) for page in (REPOSITORY / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", navigation.partition("nav:")[2]))
