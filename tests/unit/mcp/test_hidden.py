"""Texts about a server have none of the secrets of its entry."""

from __future__ import annotations

import pytest

from switchgear_mcp.hidden import Hidden
from switchgear_mcp.servers import CommandServer, UrlServer

KEY = "s3cr3t-0123456789"


@pytest.mark.parametrize(
    "url",
    [
        f"https://mcp.example.com/v1/{KEY}/mcp",
        f"https://mcp.example.com/mcp?key={KEY}",
        f"https://ana:{KEY}@mcp.example.com/mcp",
        f"https://{KEY}@mcp.example.com/mcp",
        "https://mcp.example.com/mcp?key=s3cr3t%2D0123456789",
        f"https://mcp.example.com/mcp?a=1&b={KEY}#x",
    ],
)
def test_all_of_an_address_but_its_host_is_hidden(url):
    server = UrlServer("x", url)
    hidden = Hidden(server)
    assert server.shown_url == "https://mcp.example.com"
    for text in (f"redirect to {url}", f"no key {KEY} is known", repr(server), str(server)):
        assert KEY not in hidden.hide(text)
    assert KEY not in f"{server!r} {server}"
    assert "mcp.example.com" in hidden.hide("redirect to https://mcp.example.com:1/")


def test_values_of_headers_and_of_secret_variables_are_hidden():
    headers = {"Authorization": f"Bearer {KEY}", "X-Team": "platform", "X-Key": "abcd1234"}
    text = Hidden(UrlServer("x", "https://h/mcp", headers)).hide(f"{KEY}: platform, Bearer {KEY}, abcd1234")
    assert text == "[redacted]: platform, [redacted], [redacted]"
    env = {"API_TOKEN": "hunter22", "MODE": "production", "OTHER": "ghp_" + "a" * 36}
    line = Hidden(CommandServer("x", "y", env=env)).line(f"in production: hunter22 and {env['OTHER']} are wrong")
    assert line == "in production: [redacted] and [redacted] are wrong"


def test_a_line_of_a_server_loses_what_looks_like_a_secret():
    line = Hidden(CommandServer("x", "y")).line("401 for Authorization: Bearer abcdefghijklmnop")
    assert "abcdefghijklmnop" not in line


def test_ordinary_words_of_an_address_stay_in_other_texts():
    hidden = Hidden(UrlServer("x", "https://h/server/tools?format=json&mode=string"))
    assert hidden.hide("The server has no tools, the string is json.") == "The server has no tools, the string is json."
