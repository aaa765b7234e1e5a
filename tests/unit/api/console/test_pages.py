import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from switchgear_api.console.pages import PAGES, ConsolePages


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=ConsolePages().routes))


@pytest.fixture(scope="module")
def base():
    return ConsolePages().base


@pytest.mark.parametrize("path", [page.replace("{name:path}", "mcp:web:a/b") for page in PAGES])
def test_every_page_answers_with_the_document(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.text.startswith("<!doctype html>")
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.slow
def test_document_names_files_that_exist(client, base):
    named = re.findall(r'(?:href|src)="([^"]+)"', client.get("/").text)
    assert {client.get(address).status_code for address in named} == {200}
    assert {f"{base}/console.js", f"{base}/console.css"} <= set(named)


def test_pages_but_the_login_have_browsers_load_what_the_script_needs(client):
    for path in ("/", "/system"):
        assert "</v1/console/now?minutes=60>; rel=preload; as=fetch" in client.get(path).headers["link"]
    assert "link" not in client.get("/login").headers


def test_policy_of_pages_and_files_allows_no_inline_code_and_no_frame(client, base):
    for address in ("/", f"{base}/js/main.js"):
        headers = client.get(address).headers
        assert "unsafe" not in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_document_has_no_inline_script_or_style(client):
    text = client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text)


def test_files_are_kept_by_browsers_and_the_document_is_checked_again(client, base):
    answer = client.get(f"{base}/css/tokens.css")
    assert "immutable" in answer.headers["cache-control"]
    document = client.get("/")
    again = client.get("/", headers={"If-None-Match": document.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_are_compressed_for_browsers_that_can_read_it(client, base):
    plain = client.get(f"{base}/vendor/uplot.js", headers={"Accept-Encoding": "identity"})
    small = client.get(f"{base}/vendor/uplot.js", headers={"Accept-Encoding": "gzip"})
    assert small.headers["content-encoding"] == "gzip"
    assert small.text == plain.text


def test_address_of_another_release_or_outside_the_folder_is_not_found(client, base):
    for address in (
        "/assets/0000000000000000/js/main.js",
        f"{base}/../pages.py",
        f"{base}/js/none.js",
        f"{base}/vendor/preact.d.ts",
    ):
        assert client.get(address).status_code == 404


def test_hash_in_the_addresses_changes_with_any_file(tmp_path):
    (tmp_path / "js").mkdir()
    (tmp_path / "index.html").write_text("%ASSETS%")
    (tmp_path / "js" / "main.js").write_text("1")
    first = ConsolePages(tmp_path).base
    (tmp_path / "js" / "main.js").write_text("2")
    assert ConsolePages(tmp_path).base != first
