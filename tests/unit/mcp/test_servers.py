"""The servers of a client's file: names of any form, and one bad entry among good ones."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from switchgear_mcp import servers
from switchgear_mcp.names import is_plain, plain_names
from switchgear_schemas.errors import WrongUsageError

GOOD = {"command": sys.executable}
BAD = {
    "missing": {"command": "/nonexistent/server"},
    "odd": "text",
    "neither": {},
    "args": {"command": sys.executable, "args": "x"},
    "variable": {"command": sys.executable, "env": {"A": "${NOT_SET_AT_ALL}"}},
    "address": {"url": "mcp.example.com/s3cr3t"},
    "headers": {"url": "https://h/mcp", "headers": ["A"]},
    "forward": {"url": "https://h/mcp", "forward_headers": "authorization"},
    "wrapped": {"command": "switchgear", "args": ["mcp-proxy", "--name", "x", "--", "y"]},
    "folder": {"command": sys.executable, "cwd": "/nonexistent"},
}
CODEX = f"""
[mcp_servers.program]
command = "{sys.executable}"
args = ["server.py"]
env_vars = ["A_TOKEN"]
env = {{ B = "1" }}

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.address]
url = "https://h/mcp"
bearer_token_env_var = "A_TOKEN"
http_headers = {{ X-A = "1" }}
env_http_headers = {{ X-B = "A_TOKEN" }}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(**entries):
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": entries}))
        return path

    return written


@pytest.mark.parametrize("name", BAD)
def test_a_server_that_can_not_be_used_is_left_out_with_a_warning_and_the_others_work(name, file, caplog):
    with caplog.at_level(logging.WARNING):
        found = servers.of_file(file(first=GOOD, **{name: BAD[name]}, last=GOOD))
    assert [each.name for each in found] == ["first", "last"]
    (record,) = caplog.records
    assert name in record.getMessage() or BAD[name] == BAD["address"]
    assert "The server is left out." in record.getMessage()
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize("name", BAD)
def test_a_server_that_is_asked_for_or_is_the_only_one_must_work(name, file):
    path = file(first=GOOD, **{name: BAD[name]})
    for only in ([name], ["first", name]):
        with pytest.raises(WrongUsageError):
            servers.of_file(path, only)
    with pytest.raises(WrongUsageError):
        servers.of_file(file(**{name: BAD[name]}))


def test_the_addresses_of_gemini_and_windsurf_are_known_and_headers_go_on_if_the_entry_says_so(file):
    entry = {"serverUrl": "https://w.example/mcp", "forward_headers": ["Authorization"]}
    gemini, windsurf = servers.of_file(file(a={"httpUrl": "https://g.example/mcp"}, b=entry))
    assert (gemini.shown_url, gemini.forward_headers) == ("https://g.example", ())
    assert (windsurf.shown_url, windsurf.forward_headers) == ("https://w.example", ("authorization",))


def test_a_file_may_have_comments_and_may_be_the_toml_of_codex(tmp_path, monkeypatch):
    jsonc = tmp_path / "mcp.json"
    jsonc.write_text('{"servers": { // mine\n "a": {"type": "sse", "url": "https://h/sse"}, /* last */ }}')
    (found,) = servers.of_file(jsonc)
    assert (found.url, found.sse) == ("https://h/sse", True)
    codex = tmp_path / "config.toml"
    codex.write_text(CODEX)
    monkeypatch.setenv("A_TOKEN", "s3cr3t")
    program, address = servers.of_file(codex)
    assert (program.args, program.env) == (("server.py",), {"A_TOKEN": "s3cr3t", "B": "1"})
    assert address.headers == {"X-A": "1", "X-B": "s3cr3t", "Authorization": "Bearer s3cr3t"}


def test_any_name_of_a_client_becomes_a_name_of_circuits_and_all_are_different(file):
    given = [
        "My Server (dev)",
        "My-Server-dev",
        "Wetter für Köln",
        "気象",
        "-x",
        "a" * 200,
        "a" * 300,
        "",
        "a:b|c",
        "n\u202e",
    ]
    names = plain_names(given)
    assert list(names) == [given[1], *(each for each in given if each != given[1])]
    assert all(map(is_plain, names.values()))
    assert len(set(names.values())) == len(given)
    assert names["My-Server-dev"] == "My-Server-dev"
    assert names["My Server (dev)"] == "My-Server-dev-2"
    (found,) = servers.of_file(file(**{"My Server (dev)": GOOD}), ["My Server (dev)"])
    assert found.name == "My-Server-dev"


@pytest.mark.parametrize(
    "url", ["ana:hunter2@h/mcp", "h/hunter2", "ftp://h/hunter2", "http://ana:hunter2@/x", "http://[::1/hunter2"]
)
def test_a_wrong_address_is_not_shown_with_its_secrets(url):
    with pytest.raises(WrongUsageError, match="is not an address") as raised:
        servers.of_url("x", url, ())
    assert "hunter2" not in str(raised.value)
