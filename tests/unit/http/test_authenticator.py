"""The settings of the access, and the ways to log in that follow from them."""

from datetime import UTC, datetime

import msgspec
import pytest
from starlette.datastructures import Headers

from switchgear_http.authenticator import Authenticator
from switchgear_http.errors import InvalidCredentialsError
from switchgear_http.principal import Role
from switchgear_http.session import cookie_of
from switchgear_http.sessions import Sessions
from switchgear_http.tokens import new_token, with_revoked, with_token
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import Settings, load_settings
from tests.support.table import table

ISSUER = {"access_jwt_issuer": "https://login.example.com", "access_jwt_audience": "switchgear"}


async def test_tokens_of_the_file_and_of_the_variable_are_both_accepted(tmp_path, monkeypatch):
    (one, first), (two, second) = new_token("a", [Role.READ]), new_token("b", [Role.READ])
    (tmp_path / "tokens.toml").write_text(with_token("", one))
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS_FILE", str(tmp_path / "tokens.toml"))
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS", with_token("{}", two))
    settings = load_settings()
    assert two.sha256 not in repr(settings)
    login = Authenticator.of(settings)
    assert login.configured
    assert [(await login.authenticate(text)).name for text in (first, second)] == ["a", "b"]
    with pytest.raises(InvalidCredentialsError):
        await login.authenticate("a.b.c")


async def test_without_settings_nobody_can_log_in(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS_FILE", "")
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS", "")
    login = Authenticator.of(load_settings())
    assert not login.configured
    with pytest.raises(InvalidCredentialsError):
        await login.authenticate("sgt_abcd_" + "x" * 43)


async def test_issuer_makes_jwts_a_way_to_log_in():
    login = Authenticator.of(Settings(**ISSUER))
    assert login.configured
    with pytest.raises(InvalidCredentialsError, match="JWT"):
        await login.authenticate("a.b.c")


@table(
    ("settings", "word"),
    [
        ({"access_jwt_issuer": "https://login.example.com"}, "access_jwt_audience"),
        (ISSUER | {"access_jwt_issuer": "http://login.example.com"}, "https"),
        (ISSUER | {"access_jwt_jwks_url": "http://login.example.com"}, "access_jwt_jwks_url"),
        (ISSUER | {"access_jwt_algorithms": "RS256,HS256"}, "HS256"),
        (ISSUER | {"access_jwt_algorithms": "none"}, "none"),
        (ISSUER | {"access_jwt_algorithms": ","}, "no algorithm"),
        ({"access_tokens": "nonsense"}, "access_tokens"),
    ],
)
def test_wrong_setting_of_the_access_is_an_error_that_names_it(settings, word):
    with pytest.raises(SettingsError, match=word):
        Authenticator.of(Settings(**settings))


@pytest.mark.parametrize(
    "origins",
    [
        "*",
        "null",
        "https://a.example/",
        "https://a.example/path",
        "a.example",
        "https://*.example",
        "https://A.example",
    ],
)
def test_origins_must_be_exact(origins, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_ACCESS_CORS_ORIGINS", origins)
    with pytest.raises(SettingsError, match="SWITCHGEAR_ACCESS_CORS_ORIGINS"):
        load_settings()


def test_origins_may_have_ports_and_be_several():
    assert Settings(access_cors_origins="https://a.example, http://localhost:3000,http://[::1]:80").access_cors_origins


def test_session_of_a_token_has_the_rights_that_the_token_has_now_and_ends_with_it(tmp_path):
    file = tmp_path / "tokens.toml"
    token, _ = new_token("ada", [Role.OPERATE])
    file.write_text(with_token("", token))
    session = Sessions().begin(token.principal(), "token")
    assert Authenticator.of(Settings(access_tokens_file=file)).principal_of(session) == token.principal()
    lowered = msgspec.structs.replace(token, roles=(Role.READ,), tools=("mail",))
    file.write_text(with_token("", lowered))
    assert Authenticator.of(Settings(access_tokens_file=file)).principal_of(session) == lowered.principal()
    past = datetime(2026, 1, 1, tzinfo=UTC)
    expired = msgspec.structs.replace(token, expires_at=past)
    for ended in (with_revoked(with_token("", token), token.id, past), with_token("", expired)):
        file.write_text(ended)
        assert Authenticator.of(Settings(access_tokens_file=file)).principal_of(session) is None


@table("other", ['prefs={"a":1}', "a=b c", "x[0]=1", "a", "a@b=1"])
def test_cookie_of_another_program_does_not_hide_ours(other):
    assert cookie_of(Headers({"cookie": f"{other}; ours=value"}), "ours") == "value"
