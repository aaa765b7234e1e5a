"""The command that agents start."""

from __future__ import annotations

import sys

import pytest

from switchgear_cli.commands import mcp as command
from switchgear_mcp.ask import run as running
from switchgear_schemas.errors import SwitchgearError, WrongUsageError


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The options with which a server would have started."""
    found = []
    monkeypatch.setattr(running, "run", found.append)
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    return found


def test_it_asks_the_api_that_is_named_over_standard_input_and_output(started):
    assert command.mcp(api_url="http://gear.example.com:8620") == 0
    (options,) = started
    assert (options.settings.api_url, options.address) == ("http://gear.example.com:8620", None)


@pytest.mark.parametrize(
    ("given", "address"), [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:8630", "[::1]:8630"), ("::1:8630", "[::1]:8630")]
)
def test_it_serves_http_at_an_address(started, given, address):
    command.mcp(api_url="http://127.0.0.1:8620", http=given, allowed_host=("gear.example.com",))
    (options,) = started
    assert (options.address, options.allowed_hosts) == (address, ("gear.example.com",))


@pytest.mark.parametrize("given", ["8630", ":8630", "host:", "host:x", "host:65536", ""])
def test_what_is_no_address_is_said(started, given):
    with pytest.raises(WrongUsageError, match="is not a host and a port"):
        command.mcp(http=given)
    assert started == []


def test_without_the_sdk_it_says_what_to_install(monkeypatch, started):
    monkeypatch.delitem(sys.modules, "switchgear_mcp.ask.run")
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    with pytest.raises(SwitchgearError, match=r"needs mcp.*which is not installed") as refused:
        command.mcp(api_url="http://127.0.0.1:8620")
    assert "switchgear[mcp-server]" in refused.value.hint
