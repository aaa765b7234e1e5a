"""Where a server may listen, and its certificate."""

import ssl

import pytest

from switchgear_http.authenticator import Authenticator
from switchgear_http.listening import check_listen, tls_options
from switchgear_http.token_source import FixedTokens
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import Settings
from tests.support.certificates import Authority


@pytest.mark.parametrize("address", ["127.0.0.1:80", "localhost:80", "[::1]:80", "127.8.8.8:0"])
def test_this_machine_is_served_without_tokens(address):
    check_listen(address, Authenticator(), "SWITCHGEAR_X")


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "gear.example.com:80"])
def test_other_machines_are_served_with_tokens_only_and_the_error_says_what_to_do(address):
    with pytest.raises(SettingsError) as caught:
        check_listen(address, Authenticator(), "SWITCHGEAR_X")
    for word in (address, "switchgear token create", "SWITCHGEAR_ACCESS_TOKENS_FILE", "SWITCHGEAR_X to 127.0.0.1:80"):
        assert word in str(caught.value)
    assert str(caught.value).count(". ") == 0  # one sentence
    check_listen(address, Authenticator([FixedTokens("", "x")]), "SWITCHGEAR_X")


@pytest.mark.parametrize("password", [None, "hunter2"])
def test_certificate_files_become_options_that_uvicorn_can_load(tmp_path, password):
    certificate, key = Authority(tmp_path).sign("server", password=password)
    settings = Settings(tls_certfile=certificate, tls_keyfile=key, tls_key_password=password)
    found = tls_options(settings)
    assert "hunter2" not in repr(settings)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        found["ssl_certfile"], found["ssl_keyfile"], found["ssl_keyfile_password"]
    )


def test_no_certificate_means_plain_http():
    assert tls_options(Settings()) == {}


def test_certificate_files_that_cannot_be_used_are_errors_that_name_the_setting(tmp_path):
    certificate, key = Authority(tmp_path).sign("server", password="hunter2")
    _, other = Authority(tmp_path / "other").sign("other")
    text = tmp_path / "text"
    text.write_text("no certificate")
    for given, word in (
        ({"tls_certfile": tmp_path / "missing"}, "tls_certfile names .*missing"),
        ({"tls_certfile": certificate, "tls_keyfile": tmp_path / "missing"}, "tls_keyfile names .*missing"),
        ({"tls_certfile": certificate, "tls_keyfile": other}, "tls_keyfile"),
        ({"tls_certfile": certificate, "tls_keyfile": key}, "tls_key_password"),
        ({"tls_certfile": certificate, "tls_keyfile": key, "tls_key_password": "wrong"}, "tls_key_password"),
        ({"tls_certfile": text}, "PEM"),
        ({"tls_keyfile": key}, "without tls_certfile"),
    ):
        with pytest.raises(SettingsError, match=word):
            tls_options(Settings(**given))
