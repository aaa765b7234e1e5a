"""Servers that would not work behind the proxy are found before a file is rewritten."""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from switchgear_mcp import examine
from switchgear_mcp.examine import examined, status_at
from switchgear_mcp.wrap import wrap_file


def why(entry, status=200):
    asked = []

    def ask(url, headers):
        asked.append((url, headers))
        return status

    (found,) = examined([entry], ask)
    return found, asked


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (200, None),
        (400, None),
        (406, None),
        (401, "It asks for a login (HTTP 401)"),
        (403, "It asks for a login (HTTP 403)"),
        (404, "It has no streamable HTTP at this address"),
        (405, "It has no streamable HTTP at this address"),
        (503, "It does not work now (HTTP 503)"),
        (None, "It did not answer"),
    ],
)
@pytest.mark.parametrize("key", ["url", "httpUrl", "serverUrl"])
def test_an_address_without_a_credential_is_asked_once(key, status, sentence):
    found, asked = why({key: "https://mcp.example.com/mcp"}, status)
    assert asked == [("https://mcp.example.com/mcp", {})]
    assert (found or "").startswith(sentence or "")
    assert (found is None) == (sentence is None)
    assert found is None or "example" not in found, "an address may hold a secret"


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://h/mcp", "headers": {"Authorization": "Bearer x"}},
        {"url": "https://h/${KEY}/mcp"},
        {"url": "${input:address}"},
        {"url": "https://h/mcp", "disabled": True},
        {"command": "/nonexistent", "disabled": True},
    ],
)
def test_a_server_with_a_credential_or_with_what_only_the_client_knows_is_not_asked(entry):
    assert why(entry, 401) == (None, [])


def test_other_schemes_are_not_asked():
    assert why({"url": "file:///etc/passwd"}) == ("Its address is not http:// or https://.", [])


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"command": sys.executable}, None),
        ({"command": "python3"}, None),
        ({"command": "${PYTHON}"}, None),
        ({"command": "./server.py"}, None),
        ({"command": "~/no-such-program"}, "was not found"),
        ({"command": "/nonexistent/server"}, "Its command '/nonexistent/server' was not found."),
        ({"command": "no-such-program"}, "was not found"),
        ({"command": "python3", "env": {"PATH": "/nonexistent"}}, "was not found"),
        ({"command": "python3", "env": {"PATH": "${PATH}"}}, None),
        ({"command": "server.sh", "cwd": "/nonexistent"}, "was not found"),
        ({"command": "bin/server.sh", "cwd": "${workspaceFolder}"}, None),
        ({"command": "/etc/passwd"}, "is not a program that can be started"),
        ({"command": ""}, "Its command is empty."),
    ],
)
def test_a_command_that_is_not_there_is_found(entry, sentence):
    found, asked = why(entry)
    assert asked == []
    assert sentence in found if sentence else found is None


def test_only_the_servers_that_work_are_wrapped(tmp_path):
    entries = {
        "a": {"command": sys.executable},
        "b": {"command": "/nonexistent/server"},
        "c": {"url": "https://mcp.example.com/mcp"},
        "d": 7,
        "e": {"command": sys.executable},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    report = wrap_file(path, examine=lambda given: examined(given, lambda _url, _headers: 401))
    assert report.changed == ("a", "e")
    assert [left.name for left in report.left] == ["b", "c", "d"]
    assert "was not found" in report.left[0].reason
    assert "login" in report.left[1].reason
    after = json.loads(path.read_text())["mcpServers"]
    assert {name: after[name] for name in "bcd"} == {name: entries[name] for name in "bcd"}


class Redirecting(BaseHTTPRequestHandler):
    """Sends whoever asks elsewhere."""

    def do_POST(self):
        self.server.seen.append(
            (self.path, self.headers.get("X-Key"), self.rfile.read(int(self.headers["Content-Length"])))
        )
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "/401")
        self.end_headers()

    def log_message(self, *_given):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Redirecting) as running:
        running.seen = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.slow
def test_the_question_is_a_ping_and_follows_no_redirect(server, monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    assert [status_at(f"{address}/{status}", {"X-Key": "k"}) for status in (200, 401, 307, 302)] == [200, 401, 307, 302]
    assert [path for path, *_ in server.seen] == ["/200", "/401", "/307", "/302"]
    assert {key for _, key, _ in server.seen} == {"k"}
    assert {json.loads(body)["method"] for *_, body in server.seen} == {"ping"}
    monkeypatch.setattr(examine, "LIMIT_S", 0.2)
    assert status_at("http://127.0.0.1:9/x", {}) is None
    assert status_at("http://[::1", {}) is None
    assert status_at(address, {"X": "a\nb"}) is None
