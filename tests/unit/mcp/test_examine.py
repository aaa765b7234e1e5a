"""Each server of a client's file is tried before the file is rewritten."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from switchgear_mcp import examine
from switchgear_mcp.examine import examined
from switchgear_mcp.servers import UrlServer
from switchgear_mcp.wrap import Finding, wrap_file
from tests.support.http_server import served
from tests.support.shared import REPOSITORY

RAW = {"command": sys.executable, "args": ["-S", str(REPOSITORY / "tests/support/raw_mcp_server.py")]}
WORKS = Finding(works=True, text="tried")


def without_trial(entry):
    """Return what is found, and the servers that were tried."""
    seen = []

    async def trial(server):
        seen.append(server)
        return WORKS

    (found,) = examined([entry], trial)
    return found, seen


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"command": "~/no-such-program"}, "was not found"),
        ({"command": "/nonexistent/server"}, "Its command '/nonexistent/server' was not found."),
        ({"command": "no-such-program"}, "was not found"),
        ({"command": "python3", "env": {"PATH": "/nonexistent"}}, "was not found"),
        ({"command": "server.sh", "cwd": "/nonexistent"}, "was not found"),
        ({"command": "/etc/passwd"}, "is not a program that can be started"),
        ({"command": ""}, "Its command is empty."),
        ({"url": "file:///etc/passwd"}, "Its address is not http:// or https://."),
        ({"url": "unix:///run/mcp.sock"}, "Its address is not http:// or https://."),
    ],
)
def test_a_server_that_can_not_work_is_found_without_a_trial(entry, sentence):
    found, seen = without_trial(entry)
    assert not found.works
    assert sentence in found.text
    assert seen == []


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${PYTHON_OF_NOBODY}"},
        {"command": "./server.py"},
        {"command": "python3", "env": {"PATH": "${PATH_OF_NOBODY}"}},
        {"command": "bin/server.sh", "cwd": "${workspaceFolder}"},
        {"command": sys.executable, "args": ["${input:token}"]},
        {"url": "https://h/${KEY_OF_NOBODY}/mcp"},
        {"url": "${input:address}"},
        {"url": "https://h/mcp", "disabled": True},
        {"command": "/nonexistent", "enabled": False},
    ],
)
def test_a_server_with_what_only_the_client_knows_is_wrapped_without_a_trial(entry):
    found, seen = without_trial(entry)
    assert found.works
    assert "not tried" in found.text
    assert seen == []


@pytest.mark.parametrize("entry", [{"command": sys.executable}, {"serverUrl": "https://h/mcp", "headers": {"A": "b"}}])
def test_all_others_are_tried(entry):
    found, (server,) = without_trial(entry)
    assert found == WORKS
    assert not isinstance(server, UrlServer) or server.headers == {"A": "b"}


@pytest.mark.slow
def test_a_program_is_started_once_and_lists_its_tools(monkeypatch):
    monkeypatch.setattr(examine, "LIMIT_S", 3)
    quick = {"command": sys.executable, "args": ["-S", "-c"]}
    ends = quick | {"args": [*quick["args"], "import sys; print('no TOKEN', file=sys.stderr); sys.exit(2)"]}
    hangs = quick | {"args": [*quick["args"], "import time; time.sleep(60)"]}
    works, ended, silent = examined([RAW, ends, hangs])
    assert works == Finding(works=True, text="It works, and has 5 tools.")
    assert not ended.works
    assert ended.text.startswith("It has ended; the last line of its standard error is: no TOKEN.")
    assert ended.text.endswith("it needs a variable: name that in the env of its entry.")
    assert silent == Finding(works=False, text="It did not answer within 3 s. Wrap again when it does.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "headers", "sentence"),
    [
        (401, {"WWW-Authenticate": "Bearer"}, "It asks for a login"),
        (503, {}, "It answered with HTTP 503 Service Unavailable."),
        (404, {}, "It answered with HTTP 404 Not Found."),
    ],
)
def test_an_address_that_refuses_the_handshake_stays_with_the_reason(status, headers, sentence, monkeypatch):
    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for each in headers.items():
                self.send_header(*each)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_given):
            pass

    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with served(HTTPServer(("127.0.0.1", 0), Refuses)) as url:
        (found,) = examined([{"url": f"{url}/s3cr3t"}])
    assert not found.works
    assert found.text.startswith(sentence)
    assert "s3cr3t" not in found.text


def test_only_the_servers_that_work_are_wrapped(tmp_path):
    entries = {
        "a": {"command": sys.executable},
        "b": {"command": "/nonexistent/server"},
        "c": {"url": "https://mcp.example.com/mcp"},
        "d": 7,
        "e": {"command": sys.executable},
    }

    async def trial(server):
        return Finding(works=not isinstance(server, UrlServer), text="It asks for a login.")

    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    report = wrap_file(path, examine=lambda given: examined(given, trial))
    assert report.changed == ("a", "e")
    assert [left.name for left in report.left] == ["b", "c", "d"]
    assert "was not found" in report.left[0].reason
    assert "login" in report.left[1].reason
    after = json.loads(path.read_text())["mcpServers"]
    assert {name: after[name] for name in "bcd"} == {name: entries[name] for name in "bcd"}
