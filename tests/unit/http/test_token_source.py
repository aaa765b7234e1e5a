"""Tokens of a file that is replaced while a server runs."""

from datetime import UTC, datetime

import msgspec
import pytest
from structlog.testing import capture_logs

from switchgear_http.errors import InvalidCredentialsError
from switchgear_http.principal import Role
from switchgear_http.token_source import FixedTokens, TokenFile
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.errors import SettingsError
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock(0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.toml"


def replaced(path, *tokens):
    text = ""
    for token in tokens:
        text = with_token(text, token)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def accepts(source, text):
    try:
        source.table.authenticate(text)
    except InvalidCredentialsError:
        return False
    return True


def test_replaced_file_is_read_again_a_second_later(path, clock):
    (one, first), (two, second) = new_token("a", [Role.READ]), new_token("b", [Role.READ])
    replaced(path, one)
    source = TokenFile(path, clock=clock)
    assert (accepts(source, first), accepts(source, second)) == (True, False)
    replaced(path, two)
    assert accepts(source, first)  # nothing was looked at yet
    clock.now = 1.0
    assert (accepts(source, first), accepts(source, second)) == (False, True)


def test_file_is_looked_at_once_a_second_however_many_requests_come(path, clock, monkeypatch):
    replaced(path, new_token("a", [Role.READ])[0])
    source = TokenFile(path, clock=clock)
    looks = []
    monkeypatch.setattr(source, "_identity", lambda: looks.append(clock.now) or source._seen)
    for _ in range(1000):
        assert len(source.table) == 1
        clock.now += 0.01
    assert 9 <= len(looks) <= 11


@pytest.mark.parametrize("damage", ["removed", "unreadable", "not UTF-8", "a folder"])
def test_last_good_tokens_stay_valid_when_the_file_is_damaged_and_the_log_says_so_once(path, clock, damage):
    token, text = new_token("a", [Role.READ])
    replaced(path, token)
    source = TokenFile(path, clock=clock)
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "removed":
        path.write_bytes(b"tokens = 3" if damage == "unreadable" else b"\xff\xfe\x00")
    with capture_logs() as logs:
        for _ in range(5):
            clock.now += 1
            assert accepts(source, text)
    assert [each["log_level"] for each in logs] == ["warning"]
    assert "stay valid" in logs[0]["event"]
    if damage == "a folder":
        path.rmdir()
    replaced(path)
    clock.now += 1
    assert not accepts(source, text)


def test_missing_file_at_the_start_is_an_error_with_what_to_do(path):
    with pytest.raises(SettingsError, match="switchgear token create"):
        TokenFile(path)


def test_tokens_of_a_setting_may_be_json_or_toml():
    token, text = new_token("a", [Role.READ])
    for start in ("", "{}"):
        assert accepts(FixedTokens(with_token(start, token), "The setting"), text)
    with pytest.raises(SettingsError, match="The setting is not a list"):
        FixedTokens("nonsense", "The setting")


def test_two_valid_tokens_with_one_name_are_refused_and_the_last_good_ones_stay(path, clock):
    (one, first), (two, second) = new_token("planner", [Role.READ]), new_token("planner", [Role.ADMIN])
    replaced(path, one)
    source = TokenFile(path, clock=clock)
    replaced(path, one, two)
    clock.now = 1.0
    with capture_logs() as logs:
        assert (accepts(source, first), accepts(source, second)) == (True, False)
    assert f"has the name planner twice, in the tokens {one.id} and {two.id}" in logs[0]["why"]
    for make in (lambda: TokenFile(path), lambda: FixedTokens(path.read_text(), "The setting")):
        with pytest.raises(SettingsError, match="name planner twice"):
            make()


def test_a_name_of_another_source_is_taken_too(path, clock):
    one, two = (new_token("planner", [Role.READ])[0] for _ in range(2))
    replaced(path, two)
    with pytest.raises(SettingsError, match="name planner twice"):
        TokenFile(path, FixedTokens(with_token("", one), "The setting").table)


def test_the_name_of_a_token_that_ended_is_free_again(path, clock):
    old, _ = new_token("planner", [Role.READ])
    new, text = new_token("planner", [Role.READ])
    replaced(path, msgspec.structs.replace(old, revoked_at=datetime(2026, 1, 1, tzinfo=UTC)), new)
    assert accepts(TokenFile(path, clock=clock), text)
