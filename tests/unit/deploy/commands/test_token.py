"""``switchgear token``: one file, changed as a whole, and a token that is printed once."""

import json
import multiprocessing
import re
import stat
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.main import run
from switchgear_http.principal import ROLE_NAMES, Role
from switchgear_http.tokens import TokenTable, new_token, parse_tokens, with_token


@pytest.fixture
def path(tmp_path, monkeypatch):
    found = tmp_path / "tokens.toml"
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS_FILE", str(found))
    return found


@pytest.fixture
def switchgear(capsys):
    def called(*arguments, code=0):
        assert run(["token", *arguments]) == code
        return capsys.readouterr()

    return called


def stored(path):
    return parse_tokens(path.read_text(), str(path))


def test_created_token_is_printed_alone_and_the_file_lets_its_holder_in(switchgear, path):
    made = switchgear(
        "create", "planner", "--roles", "emit, read", "--tenant", "acme", "--tools", "mcp:*,search", "--expires", "90d"
    )
    text = made.out.strip()
    assert re.fullmatch(r"sgt_[a-z0-9]+_\S+", text)
    assert text not in made.err + path.read_text()
    client = TokenTable(stored(path)).authenticate(text)
    assert (client.name, client.tenant, client.tools) == ("planner", "acme", ("mcp:*", "search"))
    assert {str(role) for role in client.roles} == {"emit", "read"}
    left = stored(path)[0].expires_at - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)


def test_a_token_that_may_emit_says_that_it_is_one_reporter_and_collector_is_the_way_out(switchgear, path):
    assert "one reporter" in switchgear("create", "service", "--roles", "emit").err
    assert "one reporter" not in switchgear("create", "reader", "--roles", "read").err
    assert "one reporter" not in switchgear("create", "otel", "--roles", "emit", "--collector").err
    assert [each.collector for each in stored(path)] == [False, False, True]


def test_file_of_tokens_is_its_owners_alone_and_stays_so(switchgear, path):
    switchgear("create", "a", "--roles", "read")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_ino
    switchgear("revoke", "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before  # replaced as a whole
    assert {each.name for each in path.parent.iterdir()} == {path.name, f".{path.name}.lock"}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["tokens.toml", "tokens.json"])
def test_revoked_token_lets_nobody_in_and_the_list_shows_it(switchgear, tmp_path, file):
    where = ["--tokens-file", str(tmp_path / file)]
    for holder in ("a", "b"):
        switchgear("create", holder, "--roles", "admin", *where)
    identity = stored(tmp_path / file)[0].id
    assert f"Token {identity} of a is revoked." in switchgear("revoke", identity, *where).out
    switchgear("revoke", identity, *where)
    found = json.loads(switchgear("list", "--json", *where).out)["tokens"]
    assert [(each["name"], each["state"]) for each in found] == [("a", "revoked"), ("b", "valid")]
    table = switchgear("list", *where).out
    assert identity in table
    assert "revoked" in table
    assert "sha256" not in table + json.dumps(found)


@pytest.mark.slow
def test_name_that_several_valid_tokens_have_in_an_older_file_is_not_revoked(switchgear, path):
    tokens = [new_token("a", [Role.READ])[0] for _ in range(2)]
    path.write_text(with_token(with_token("", tokens[0]), tokens[1]))
    one, two = (each.id for each in stored(path))
    refused = switchgear("revoke", "a", code=2).err
    assert one in refused
    assert two in refused
    switchgear("revoke", one)
    switchgear("revoke", "a")
    assert all(each.revoked_at for each in stored(path))
    assert "no valid token 'a'" in switchgear("revoke", "a", code=2).err


def test_a_name_is_given_to_one_valid_token_only(switchgear, path):
    switchgear("create", "a", "--roles", "read")
    before = path.read_text()
    assert stored(path)[0].id in switchgear("create", "a", "--roles", "admin", code=2).err
    assert path.read_text() == before
    switchgear("revoke", "a")
    switchgear("create", "a", "--roles", "admin")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["create", "a", "--roles", "root"], f"Roles are {ROLE_NAMES}."),
        (["create", "a", "--roles", ""], "Roles are"),
        (["create", "", "--roles", "read"], "name"),
        (["create", "a"], "--roles"),
        (["create", "a", "--roles", "read", "--expires", "soon"], "duration"),
        (["create", "a", "--roles", "read", "--expires", "900d"], "--expires"),
        (["revoke", "a"], "no file"),
        (["list"], "no file"),
    ],
)
def test_wrong_argument_makes_no_file_and_is_named(path, capsys, arguments, word):
    assert run(["token", *arguments]) in {1, 2}
    assert word in capsys.readouterr().err
    assert not path.exists()


def test_without_a_file_of_tokens_the_error_says_how_to_name_one(switchgear, monkeypatch):
    monkeypatch.delenv("SWITCHGEAR_ACCESS_TOKENS_FILE", raising=False)
    assert "--tokens-file" in switchgear("list", code=2).err


def test_damaged_file_is_not_overwritten(switchgear, path):
    path.write_text("tokens = 3")
    switchgear("create", "a", "--roles", "read", code=1)
    assert path.read_text() == "tokens = 3"


def _create(number):
    return run(["token", "create", f"t{number}", "--roles", "read"])


@pytest.mark.slow
def test_tokens_that_are_created_at_the_same_time_are_all_kept(path):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_create, range(8)) == [0] * 8
    assert {each.name for each in stored(path)} == {f"t{number}" for number in range(8)}
