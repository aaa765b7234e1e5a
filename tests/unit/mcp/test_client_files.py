"""The files of the known clients, as these write them: what is wrapped, what stays, and all else as it was."""

from __future__ import annotations

import sys
import tomllib
from typing import NamedTuple

import pytest

from switchgear_mcp.examine import examined
from switchgear_mcp.servers import of_file
from switchgear_mcp.wrap import Finding, is_wrapped, unwrap_file, wrap_file
from switchgear_schemas.jsonc import parsed
from tests.support.shared import REPOSITORY

PAGE = REPOSITORY / "docs/integrations/mcp-proxy.md"
PYTHON = sys.executable


class Client(NamedTuple):
    """A client's file.

    Attributes:
        file: Its name.
        text: What is in it.
        wrapped: The servers that are wrapped.
        left: Those that stay, each with a part of the reason.
        kept: Parts of the text that stay.
    """

    file: str
    text: str
    wrapped: tuple[str, ...]
    left: dict[str, str]
    kept: tuple[str, ...] = ()


CLIENTS = {
    "Claude Desktop": Client(
        "claude_desktop_config.json",
        f"""{{
  "mcpServers": {{
    "filesystem": {{
      "command": "{PYTHON}",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ana/Desktop"]
    }},
    "gone": {{ "command": "/opt/homebrew/bin/no-such-server" }}
  }},
  "globalShortcut": "Ctrl+Space"
}}
""",
        ("filesystem",),
        {"gone": "was not found"},
        ('"globalShortcut": "Ctrl+Space"\n}\n', '    "gone": { "command": "/opt/homebrew/bin/no-such-server" }\n'),
    ),
    "Claude Code": Client(
        ".claude.json",
        f"""{{
  "numStartups": 17,
  "mcpServers": {{"sentry": {{"type": "http", "url": "https://mcp.sentry.dev/mcp"}}}},
  "projects": {{
    "/home/ana/app": {{
      "allowedTools": [],
      "history": [{{"display": "// not a comment, }}"}}],
      "mcpServers": {{
        "db": {{"type": "stdio", "command": "{PYTHON}", "args": [], "env": {{"DSN": "postgres://s3cret"}}}},
        "corp": {{"type": "http", "url": "https://corp/mcp", "headersHelper": "token.sh"}}
      }}
    }}
  }}
}}""",
        ("db (/home/ana/app)",),
        {"sentry": "login", "corp (/home/ana/app)": "logs in"},
        ('"history": [{"display": "// not a comment, }"}]', '"numStartups": 17'),
    ),
    "Cursor": Client(
        "mcp.json",
        f"""{{"mcpServers": {{
  "local": {{"command": "{PYTHON}", "args": ["server.py"], "envFile": "${{workspaceFolder}}/.env"}},
  "remote": {{"url": "https://host/mcp", "headers": {{"Authorization": "Bearer ${{env:TOKEN_OF_NOBODY}}"}}}},
  "static": {{"url": "https://host/mcp", "auth": {{"CLIENT_ID": "x"}}}}
}}}}""",
        ("local", "remote"),
        {"static": "logs in"},
    ),
    "VS Code": Client(
        "mcp.json",
        f"""{{
	// asked for once
	"inputs": [{{"type": "promptString", "id": "key", "description": "Key", "password": true}}],
	"servers": {{
		"Perplexity": {{
			"type": "stdio",
			"command": "{PYTHON}",
			"args": ["-y", "server-perplexity-ask"],
			"env": {{ "KEY": "${{input:key}}" }}, // from above
		}},
		"old": {{ "type": "sse", "url": "https://host/sse" }},
		"socket": {{ "type": "http", "url": "unix:///tmp/server.sock" }},
	}}
}}
""",
        ("Perplexity", "old"),
        {"socket": "not http:// or https://"},
        ("\t// asked for once\n", "// from above\n", '"env": { "KEY": "${input:key}" },'),
    ),
    "Gemini CLI": Client(
        "settings.json",
        """{
  "theme": "GitHub",
  "mcpServers": {
    "http": { "httpUrl": "https://host/mcp", "headers": { "X-Key": "s3cret" }, "timeout": 5000, "trust": true },
    "cloud": { "httpUrl": "https://run.app/mcp", "authProviderType": "google_credentials" },
    "dynamic": { "url": "https://host/sse", "oauth": { "enabled": true } }
  }
}
""",
        ("http",),
        {"cloud": "logs in", "dynamic": "logs in"},
        ('"timeout": 5000, "trust": true', '"theme": "GitHub"'),
    ),
    "Windsurf": Client(
        "mcp_config.json",
        f"""{{
  "mcpServers": {{
    "figma": {{ "serverUrl": "https://mcp.figma.com/mcp", "headers": {{ "API_KEY": "s3cret" }} }},
    "My Server (dev)": {{ "command": "{PYTHON}", "args": [], "disabled": true, "disabledTools": ["a"] }}
  }}
}}""",
        ("figma", "My Server (dev)"),
        {},
        ('"disabled": true, "disabledTools": ["a"]',),
    ),
    "Zed": Client(
        "settings.json",
        f"""// Zed settings
{{
  "theme": {{ "mode": "system" }},
  "context_servers": {{
    "mine": {{
      "source": "custom",
      "command": "{PYTHON}", /* in my PATH */
      "args": ["server.py"],
    }},
    "extension-server": {{ "source": "extension", "settings": {{ "token": "s3cret" }} }},
  }},
}}
""",
        ("mine",),
        {"extension-server": "neither a command nor a url"},
        ("// Zed settings\n", "/* in my PATH */", '"theme": { "mode": "system" }'),
    ),
    "Codex": Client(
        "config.toml",
        f"""model = "gpt-5.4" # the best

[mcp_servers.context7]
command = "{PYTHON}"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["LOCAL_TOKEN"]
startup_timeout_sec = 20

[mcp_servers.context7.env]
MY_ENV_VAR = "MY_ENV_VALUE"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "TOKEN_OF_NOBODY"
http_headers = {{ "X-Figma-Region" = "us-east-1" }} # near me
enabled = true

[mcp_servers.linear]
url = "https://mcp.linear.app/mcp"

[tui]
notifications = true
""",
        ("context7", "figma"),
        {"linear": "login"},
        ('model = "gpt-5.4" # the best\n', '\n[mcp_servers.context7.env]\nMY_ENV_VAR = "MY_ENV_VALUE"\n', "\n[tui]\nnotifications = true\n"),
    ),
}  # fmt: skip
LOGINS = ("mcp.sentry.dev", "mcp.linear.app")


async def trial(server):
    """Find that the servers at the public addresses ask for a login, and that all others work."""
    login = getattr(server, "url", "").startswith(tuple(f"https://{host}" for host in LOGINS))
    return Finding(works=not login, text="It asks for a login." if login else "It works.")


@pytest.mark.parametrize("name", CLIENTS)
def test_the_file_of_a_client_is_wrapped_and_restored_and_all_else_stays(name, tmp_path):
    client = CLIENTS[name]
    path = tmp_path / client.file
    path.write_text(client.text)
    report = wrap_file(path, ("/opt/bin/switchgear",), lambda entries: examined(entries, trial), ["--call-timeout=60"])
    assert report.changed == client.wrapped
    assert {left.name for left in report.left} == set(client.left)
    for left in report.left:
        assert client.left[left.name] in left.reason
    text = path.read_text()
    for part in client.kept:
        assert part in text
    arguments = [word for entry in entries_of(path) if is_wrapped(entry) for word in entry["args"]]
    assert arguments.count("--call-timeout=60") == len(client.wrapped)
    assert "s3cret" not in str(arguments)
    again = wrap_file(path, ("/opt/bin/switchgear",), lambda entries: examined(entries, trial))
    assert again.changed == ()
    unwrap_file(path)
    assert path.read_text() == client.text


@pytest.mark.parametrize("name", CLIENTS)
def test_the_proxy_reads_the_file_of_a_client_as_a_configuration(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_NOBODY", "x")
    path = tmp_path / CLIENTS[name].file
    path.write_text(CLIENTS[name].text)
    found = of_file(path)
    assert len(found) >= 1


@pytest.mark.parametrize("name", CLIENTS)
def test_the_page_has_a_row_for_each_client(name):
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    assert CLIENTS[name].file in row


def entries_of(path):
    """Return the entries of all servers in a file."""
    text = path.read_text()
    value = tomllib.loads(text) if path.suffix == ".toml" else parsed(text)
    groups = [value, *value.get("projects", {}).values()]
    keys = ("mcpServers", "servers", "context_servers", "mcp_servers")
    return [entry for group in groups for key in keys for entry in group.get(key, {}).values()]
