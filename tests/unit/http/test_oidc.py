from __future__ import annotations

import time

import httpx
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_http.errors import KeysUnavailableError
from switchgear_http.oidc import OidcLogin, local_path
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError
from tests.support.table import table


@pytest.mark.parametrize("path", ["/", "/tool/mcp:x:y?hours=6#errors", "/calls?text=//x", "/a%2f%2fb"])
def test_path_of_this_server_is_kept(path):
    assert local_path(path) == path


@table(
    "path",
    [None, "", "x", "https://evil", "//evil", "/\\evil", "/a\\..\\b", "/\tevil", "/\n/evil", "\t//evil", "/login", "/login/oidc", "/" + "x" * 2000],
)  # fmt: skip
def test_address_elsewhere_becomes_the_first_page(path):
    assert local_path(path) == "/"


@pytest.mark.slow
@given(st.text())
def test_result_is_always_a_path_that_a_browser_keeps_on_this_host(text):
    found = local_path(text)
    assert found.startswith("/")
    assert not found.startswith(("//", "/\\"))
    assert found.isprintable()


@pytest.mark.parametrize(
    "given_settings",
    [{"access_oidc_client_id": "c"}, {"access_oidc_client_id": "c", "access_jwt_issuer": "http://login.example.com"}],
)
def test_issuer_that_is_missing_or_unprotected_is_refused_at_the_start(given_settings):
    with pytest.raises(SettingsError, match="access_jwt_issuer"):
        OidcLogin(AccessSettings(**given_settings))


@pytest.mark.parametrize(
    "failure",
    [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), httpx.ConnectError("refused"), httpx2.Response(500), httpx2.Response(200, text="<html>")],
    ids=repr,
)  # fmt: skip
async def test_issuer_whose_token_endpoint_fails_is_away_whichever_httpx_authlib_uses(failure, monkeypatch):
    def answer(request):
        if isinstance(failure, Exception):
            raise failure
        return failure

    login = OidcLogin(AccessSettings(access_oidc_client_id="c", access_jwt_issuer="https://login.example.com"))
    login._configuration, login._read_at = {"token_endpoint": "https://login.example.com/token"}, time.monotonic()
    really = login._client

    def client(redirect_uri):
        found = really(redirect_uri)
        found._transport = httpx2.MockTransport(answer)
        return found

    monkeypatch.setattr(login, "_client", client)
    with pytest.raises(KeysUnavailableError, match="does not answer"):
        await login.finish("https://gear.example.com/login/oidc/callback", "code", "v" * 43, "nonce")
