"""Clients' configurations, rewritten so that their servers run behind the proxy, and back."""

from __future__ import annotations

import json
import stat
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_mcp.wrap import Finding, is_wrapped, unwrap_file, unwrapped, wrap_file, wrapped
from switchgear_schemas.json_file import JsonFileError
from tests.support.table import table

STDIO = {"command": "npx", "args": ["-y", "server-github"], "env": {"TOKEN": "${TOKEN}"}, "disabled": False}
REMOTE = {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer s3cret", "X-A": "1: 2"}}


def servers(**entries):
    return {"mcpServers": entries}


# -- single entries ---------------------------------------------------------------------------------------------------


def test_a_server_that_is_started_by_a_command_is_started_by_the_proxy():
    found = wrapped(servers(github=STDIO))["mcpServers"]["github"]
    assert found == STDIO | {
        "command": "switchgear",
        "args": ["mcp-proxy", "--name", "github", "--env=TOKEN", "--", "npx", "-y", "server-github"],
    }
    assert list(found) == list(STDIO)


def test_the_headers_of_a_remote_server_are_in_the_environment_and_not_in_the_arguments():
    found = wrapped(servers(remote=REMOTE))["mcpServers"]["remote"]
    assert found["args"] == [
        "mcp-proxy", "--name", "remote", "--header-env", "SWITCHGEAR_MCP_HEADER_1", "--header-env", "SWITCHGEAR_MCP_HEADER_2",
        "--url-env", "SWITCHGEAR_MCP_URL",
    ]  # fmt: skip
    assert found["env"]["SWITCHGEAR_MCP_HEADER_1"] == "Authorization: Bearer s3cret"
    assert not {"type", "url", "headers"} & set(found)


SECRET = "s3cret"
SECRET_ENTRIES = [
    {"url": f"https://x.example/{SECRET}/mcp"},
    {"url": f"https://x.example/mcp?api_key={SECRET}"},
    {"url": f"https://ana:{SECRET}@x.example/mcp"},
    {"httpUrl": f"https://x.example/{SECRET}"},
    {"serverUrl": f"https://x.example/{SECRET}"},
    {"url": "https://x.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}},
    {"command": "npx", "args": ["server"], "env": {"TOKEN": SECRET}},
]


@pytest.mark.parametrize("entry", SECRET_ENTRIES)
def test_secrets_of_an_entry_stay_out_of_the_arguments_and_in_the_entry(entry):
    found = wrapped(servers(remote=entry))["mcpServers"]["remote"]
    assert SECRET not in json.dumps([found["command"], *found["args"]])
    assert SECRET in json.dumps(found["env"])
    assert unwrapped(servers(remote=found)) == servers(remote=entry)


@pytest.mark.parametrize("entry", SECRET_ENTRIES)
def test_a_wrapped_file_and_its_backup_are_as_secret_as_the_file_was(entry, tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(servers(remote=entry)))
    file.chmod(0o600)
    before = file.read_bytes()
    wrap_file(file)
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    unwrap_file(file)
    assert file.read_bytes() == before


def test_variables_that_are_added_to_a_wrapped_server_are_passed_on_after_another_wrap(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(servers(a=STDIO)))
    wrap_file(file)
    value = json.loads(file.read_text())
    value["mcpServers"]["a"]["env"] |= {"NEW": "1", "SWITCHGEAR_TOKEN": "of the proxy"}
    value["mcpServers"]["a"]["args"].insert(3, "--terminal-after=5")
    file.write_text(json.dumps(value))
    assert wrap_file(file).changed == ("a",)
    assert json.loads(file.read_text())["mcpServers"]["a"]["args"] == [
        "mcp-proxy", "--name", "a", "--terminal-after=5", "--env=TOKEN", "--env=NEW", "--", "npx", "-y", "server-github",
    ]  # fmt: skip
    assert wrap_file(file).changed == ()


def test_a_name_that_circuits_can_not_have_is_replaced_in_the_arguments_alone(tmp_path):
    file = tmp_path / "mcp.json"
    before = servers(**{"My Server (dev)": STDIO, "My-Server-dev": STDIO})
    file.write_text(json.dumps(before))
    report = wrap_file(file)
    assert report.renamed == {"My Server (dev)": "My-Server-dev-2"}
    found = json.loads(file.read_text())["mcpServers"]
    assert [entry["args"][2] for entry in found.values()] == ["My-Server-dev-2", "My-Server-dev"]
    unwrap_file(file)
    assert json.loads(file.read_text()) == before


def test_the_command_may_be_a_path_with_arguments():
    found = wrapped(servers(a=STDIO), ["/opt/python", "-m", "switchgear_cli"])["mcpServers"]["a"]
    assert found["command"] == "/opt/python"
    assert found["args"][:5] == ["-m", "switchgear_cli", "mcp-proxy", "--name", "a"]
    assert is_wrapped(found)
    assert unwrapped(servers(a=found)) == servers(a=STDIO)


@table(
    "config",
    [
        {"servers": {"a": STDIO | {"type": "stdio"}}, "inputs": [{"id": "token", "type": "promptString"}]},
        {"servers": {"a": {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer ${input:token}"}}}},
        {"context_servers": {"a": {"source": "custom", "command": "x", "args": ["1"]}}, "theme": "dark"},
        {"mcpServers": {"a": STDIO}, "projects": {"/home/ana": {"mcpServers": {"b": REMOTE}, "history": [1]}}},
        {"mcpServers": {"a": {"url": "http://x", "headers": {}}, "b": {"command": "x"}, "": {"command": ""}}},
        {"mcpServers": {"a": {"type": "streamable-http", "url": "${URL}/mcp", "env": {"A": "1"}}}},
        {
            "mcpServers": {
                "a": {"httpUrl": "https://x", "timeout": 5},
                "b": {"serverUrl": "https://x", "headers": {"A": "1"}},
            }
        },
    ],
)
def test_the_formats_of_the_known_clients_are_wrapped_and_restored(config):
    changed = wrapped(config)
    for name in ("mcpServers", "servers", "context_servers"):
        assert all(is_wrapped(entry) for entry in changed.get(name, {}).values())
    assert changed.get("inputs") == config.get("inputs")
    assert unwrapped(changed) == config


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"url": "https://x", "oauth": {}}, "logs in"),
        ({"url": "https://x", "headersHelper": "x.sh"}, "logs in"),
        ({"type": "ws", "url": "https://x"}, "'ws'"),
        ({"url": 7}, "not one text"),
        ({"url": "https://x", "httpUrl": "https://y"}, "not one text"),
        ({"httpUrl": "https://x", "authProviderType": "google_credentials"}, "logs in"),
        ({"command": "x", "env": ["A"]}, "env is not an object"),
        ({"url": "https://x", "headers": {"A": 1}}, "header"),
        ({"url": "https://x", "env": {"SWITCHGEAR_MCP_URL": "y"}}, "already"),
        ({"command": {"path": "x"}}, "not text"),
        ({"command": "x", "args": "y"}, "not a list"),
        ({}, "neither"),
        ("text", "object"),
    ],
)
def test_a_server_that_can_not_be_wrapped_stays_as_it_is_and_the_report_says_why(tmp_path, entry, reason):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(servers(odd=entry, good=STDIO)))
    report = wrap_file(file)
    assert report.changed == ("good",)
    assert [left.name for left in report.left] == ["odd"]
    assert reason in report.left[0].reason
    assert json.loads(file.read_text())["mcpServers"]["odd"] == entry


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / ".mcp.json"
    path.write_text('{\n\t"mcpServers": {"a": {"command": "x", "args": []}},\n\t"other": 1.50\n}')
    path.chmod(0o640)
    return path


def backup(file):
    return file.with_name(file.name + ".switchgear-backup")


def test_a_file_is_restored_to_the_byte_if_it_has_not_changed(file):
    before = file.read_bytes()
    report = wrap_file(file)
    assert report.changed == ("a",)
    assert report.backup.read_bytes() == before
    assert is_wrapped(json.loads(file.read_text())["mcpServers"]["a"])
    assert unwrap_file(file).changed == ("a",)
    assert file.read_bytes() == before
    assert not backup(file).exists()


def test_later_edits_of_the_person_stay_when_the_servers_are_restored(file):
    wrap_file(file)
    value = json.loads(file.read_text())
    value["mcpServers"]["a"]["env"] = {"NEW": "1"}
    value["mcpServers"]["mine"] = STDIO
    value["other"] = 2
    file.write_text(json.dumps(value))
    report = unwrap_file(file)
    assert report.changed == ("a",)
    assert json.loads(file.read_text()) == {
        "mcpServers": {"a": {"command": "x", "env": {"NEW": "1"}}, "mine": STDIO},
        "other": 2,
    }


def test_an_entry_that_has_not_changed_is_restored_from_the_backup_beside_others_that_have(file):
    wrap_file(file)
    value = json.loads(file.read_text())
    value["mcpServers"]["mine"] = STDIO
    file.write_text(json.dumps(value))
    unwrap_file(file)
    assert json.loads(file.read_text())["mcpServers"]["a"] == {"command": "x", "args": []}


def test_an_entry_that_is_no_object_moves_no_other_one(file):
    file.write_text('{"mcpServers": {"odd": "text",   "a": {"command": "x", "args": []}}}')
    before = file.read_bytes()
    assert wrap_file(file).changed == ("a",)
    assert unwrap_file(file).changed == ("a",)
    assert file.read_bytes() == before


def test_servers_are_restored_without_the_backup(file):
    wrap_file(file)
    backup(file).unlink()
    unwrap_file(file)
    assert json.loads(file.read_text())["mcpServers"] == {"a": {"command": "x"}}


def test_a_second_wrap_changes_nothing(file):
    wrap_file(file)
    once, saved = file.read_bytes(), backup(file).read_bytes()
    report = wrap_file(file)
    assert report.changed == ()
    assert report.left[0].reason == "It runs behind the proxy already."
    assert (file.read_bytes(), backup(file).read_bytes()) == (once, saved)


def test_a_backup_is_never_replaced_by_a_wrapped_version(file):
    before = file.read_bytes()
    wrap_file(file)
    value = json.loads(file.read_text())
    value["mcpServers"]["new"] = STDIO
    file.write_text(json.dumps(value))
    assert wrap_file(file).changed == ("new",)
    assert backup(file).read_bytes() == before
    unwrap_file(file)
    assert json.loads(file.read_text())["mcpServers"] == {"a": {"command": "x", "args": []}, "new": STDIO}


def test_a_backup_of_earlier_times_is_replaced_when_no_server_is_wrapped(file):
    wrap_file(file)
    file.write_text(json.dumps(servers(b=STDIO)))  # restored by hand
    before = file.read_bytes()
    wrap_file(file)
    assert backup(file).read_bytes() == before


def test_mode_indentation_and_end_of_the_file_stay(file):
    wrap_file(file)
    text = file.read_text()
    assert text == (
        '{\n\t"mcpServers": {"a": {"command": "switchgear", "args": ["mcp-proxy", "--name", "a", "--", "x"]}},\n\t"other": 1.50\n}'
    )
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(backup(file).stat().st_mode) == 0o640


def test_byte_order_mark_and_line_ends_of_windows_stay(file):
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(servers(a=STDIO), indent=4).replace("\n", "\r\n").encode() + b"\r\n")
    wrap_file(file)
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf{\r\n    ")
    assert data.count(b"\n") == data.count(b"\r\n")
    assert data.endswith(b"}\r\n")


def test_a_link_is_followed_and_stays_a_link(file, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert wrap_file(link).path == file
    assert link.is_symlink()
    assert unwrap_file(link).changed == ("a",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not valid JSON"),
        (b'{"servers": {} /* mine */}', "names no MCP servers"),
        (b'{"mcpServers": {"a": {"command": "x"}, "a": {}}}', 'has the key "a" twice'),
        (b"[]", "holds no JSON object"),
        (b"{}", "names no MCP servers"),
        (b'{"mcpServers": {}}', "names no MCP servers"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b"", "is not valid JSON"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_can_not_be_rewritten_is_unchanged_and_one_sentence_says_why(file, content, sentence):
    file.write_bytes(content)
    for change in (wrap_file, unwrap_file):
        with pytest.raises(JsonFileError) as raised:
            change(file)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)
        assert file.read_bytes() == content
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(JsonFileError, match="No such file"):
        wrap_file(tmp_path / "none.json")


def test_a_folder_that_can_not_be_written_leaves_the_file_unchanged(file, monkeypatch):
    before = file.read_bytes()

    def denied(**_where):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("switchgear_schemas.json_file.tempfile.mkstemp", denied)  # root can write any folder
    with pytest.raises(JsonFileError, match="can't be written: Permission denied"):
        wrap_file(file)
    assert file.read_bytes() == before


def test_a_failure_of_the_disk_leaves_the_file_and_no_other_file(file, monkeypatch):
    before = file.read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("switchgear_schemas.json_file.os.fsync", full)
    with pytest.raises(JsonFileError, match="No space left"):
        wrap_file(file)
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_change_by_the_client_at_the_same_moment_is_not_lost(file, monkeypatch):
    from switchgear_schemas import json_file  # noqa: PLC0415

    written = json_file.write

    def write(path, data, *, like):
        written(path, data, like=like)
        if path == backup(file):
            file.write_text("{}")

    monkeypatch.setattr(json_file, "write", write)
    with pytest.raises(JsonFileError, match="changed at the same moment"):
        wrap_file(file)
    assert file.read_text() == "{}"


COMMENTED = """// of mine
{
    "mcpServers": {
        // the one for code
        "github": {"command": "npx", "args": ["-y", "x"],}, // "quoted, // text"
        /* at an address */
        "remote": {
            "url": "https://x.example/mcp", // a secret
            "timeout": 1.50,
        },
    },
}
"""


def test_comments_and_the_layout_of_a_file_stay(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(COMMENTED)
    assert wrap_file(file, options=["--call-timeout=60"]).changed == ("github", "remote")
    text = file.read_text()
    for part in (
        "// of mine\n{",
        "// the one for code\n",
        '// "quoted, // text"\n',
        "/* at an address */",
        "// a secret",
        "1.50,",
    ):
        assert part in text
    assert (
        '"github": {"command": "switchgear", "args": ["mcp-proxy", "--name", "github", "--call-timeout=60", "--", '
        in text
    )
    file.write_text(text.replace("// of mine", "// edited"))
    unwrap_file(file)
    again = file.read_text()
    assert again.startswith("// edited\n{")
    assert '"github": {"command": "npx", "args": ["-y", "x"],}, // "quoted, // text"' in again


CODEX = """# mine
model = "o3"

[mcp_servers.program] # the first
command = "npx" # of npm
args = [
  "-y", # yes
  "server",
]
env = { A = "1" }
env_vars = ["B"]
startup_timeout_sec = 20

[mcp_servers."at an address"]
url = "https://h/mcp?key=s3cret"
bearer_token_env_var = "TOKEN"
http_headers = { X-A = "s3cret" }
env_http_headers = { X-B = "VARIABLE" }

[other]
text = '''
[mcp_servers.no]
'''
"""


def test_the_file_of_codex_is_wrapped_with_its_comments_and_restored(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(CODEX)
    before = tomllib.loads(CODEX)
    assert wrap_file(file).changed == ("program", "at an address")
    after = tomllib.loads(file.read_text())
    program, address = after.pop("mcp_servers").values()
    assert after == {key: value for key, value in before.items() if key != "mcp_servers"}
    assert program["args"] == [
        "mcp-proxy", "--name", "program", "--env=A", "--env=B", "--", "npx", "-y", "server",
    ]  # fmt: skip
    assert program["env_vars"] == ["B"]
    assert address["args"] == [
        "mcp-proxy", "--name", "at-an-address", "--header-env", "SWITCHGEAR_MCP_HTTP_HEADER_1",
        "--header", "Authorization: Bearer ${TOKEN}", "--header", "X-B: ${VARIABLE}", "--url-env", "SWITCHGEAR_MCP_URL",
    ]  # fmt: skip
    assert address["env_vars"] == ["TOKEN", "VARIABLE"]
    assert set(address) == {"command", "args", "env", "env_vars"}
    text = file.read_text()
    assert text.startswith(
        '# mine\nmodel = "o3"\n\n[mcp_servers.program] # the first\ncommand = "switchgear"  # of npm\n'
    )
    file.write_text(text + "\n# later\n")
    unwrap_file(file)
    assert tomllib.loads(file.read_text()) == before
    assert file.read_text().endswith("# later\n")


@pytest.mark.parametrize("edited", [False, True])
def test_the_options_of_a_wrap_are_in_each_entry_and_are_gone_when_it_is_unwrapped(file, edited):
    wrap_file(file, ["sg", "switchgear_cli"], options=["--call-timeout=60", "--fallback=a=b"])
    entry = json.loads(file.read_text())["mcpServers"]["a"]
    assert entry["args"][1:6] == ["mcp-proxy", "--name", "a", "--call-timeout=60", "--fallback=a=b"]
    if edited:
        file.write_text(file.read_text().replace('"other": 1.50', '"other": 2'))
    unwrap_file(file)
    assert json.loads(file.read_text())["mcpServers"] == {"a": {"command": "x", "args": []}}


def test_a_trial_decides_what_is_wrapped_and_the_report_tells_what_it_showed(file):
    file.write_text(json.dumps(servers(good=STDIO, bad=STDIO, odd={})))
    findings = [Finding(works=True, text="It works."), Finding(works=False, text="It does not.")]
    report = wrap_file(file, examine=lambda _entries: findings)
    assert (report.changed, report.seen) == (("good",), {"good": "It works."})
    assert report.left[0] == ("bad", "It does not.")


# -- any configuration ------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
WORDS = st.lists(TEXT, min_size=1, max_size=4)
ENV = st.dictionaries(st.text(alphabet="ABC_", min_size=1, max_size=4), TEXT, min_size=1, max_size=3)
REST = st.dictionaries(st.sampled_from(["disabled", "timeout", "note"]), st.none() | st.integers() | TEXT, max_size=2)
HEADERS = st.dictionaries(st.text(alphabet="XYZ-", min_size=1, max_size=4), TEXT, max_size=12)


def entries(required, optional):
    return st.tuples(st.fixed_dictionaries(required, optional=optional), REST).map(lambda both: both[1] | both[0])


LOCAL_ENTRIES = entries({"command": TEXT}, {"args": WORDS, "env": ENV, "type": st.just("stdio")})
REMOTE_ENTRIES = entries(
    {"url": TEXT},
    {"type": st.sampled_from(["http", "streamable-http", "sse"]), "headers": HEADERS, "env": ENV},
)
SERVERS = st.dictionaries(TEXT, LOCAL_ENTRIES | REMOTE_ENTRIES, max_size=4)
CONFIGS = st.fixed_dictionaries(
    {}, optional={"mcpServers": SERVERS, "servers": SERVERS, "projects": st.dictionaries(TEXT, st.fixed_dictionaries({"mcpServers": SERVERS}), max_size=2), "other": TEXT}
)  # fmt: skip
COMMANDS = st.sampled_from(
    [("switchgear",), ("/opt/bin/switchgear",), ("/usr/bin/python3", "-P", "-m", "switchgear_cli")]
)


@pytest.mark.slow
@given(CONFIGS, COMMANDS)
def test_unwrapping_a_wrapped_configuration_gives_the_same_configuration(config, command):
    changed = wrapped(config, command)
    assert unwrapped(changed) == config
    assert wrapped(changed, command) == changed


@pytest.mark.slow
@given(CONFIGS, COMMANDS, st.sampled_from([None, 2, "\t"]))
def test_unwrapping_a_wrapped_file_gives_the_same_bytes(tmp_path_factory, config, command, indent):
    file = tmp_path_factory.mktemp("any") / "mcp.json"
    file.write_text(json.dumps(config, indent=indent, ensure_ascii=len(json.dumps(config)) % 2 == 0), newline="")
    before = file.read_bytes()
    try:
        wrap_file(file, command)
    except JsonFileError as error:
        assert "names no MCP servers" in str(error)
        return
    unwrap_file(file)
    assert file.read_bytes() == before
