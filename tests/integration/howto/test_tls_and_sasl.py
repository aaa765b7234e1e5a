"""docs/howto/tls-and-sasl.md: each way to log in, with the variables and the code of the page."""

from __future__ import annotations

import asyncio
import shlex

import pytest

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from tests.support.java_client import add_scram_user
from tests.support.limits import READY_S
from tests.support.processes import python
from tests.support.secured import PASSWORD, USER
from tests.support.snippets import files, snippets

pytestmark = pytest.mark.deep

PAGE = "docs/howto/tls-and-sasl.md"
CODE = files(PAGE)
BY_PASSWORD, BY_CERTIFICATE = (
    dict(word.split("=", 1) for line in block.splitlines() for word in shlex.split(line) if "=" in word)
    for block in snippets(PAGE, "sh")
)
ADDRESSES = ("broker.example.com:9092", "broker.example.com:9093")


@pytest.fixture(scope="module", autouse=True)
def _topics(secured):
    settings = load_settings(kafka_bootstrap_servers=secured.plain, topic_prefix="tls.", topic_partitions=2)
    asyncio.run(ensure_topics(settings))
    add_scram_user(secured.plain, USER, PASSWORD)


@pytest.fixture
def ours(secured):
    """Return ``ours(text)``, which replaces the broker, password and files in a text of the page by those of the test."""
    certfile, keyfile = secured.authority.sign("client")
    put = {
        ADDRESSES[0]: secured.sasl_ssl, ADDRESSES[1]: secured.mutual_tls, "planner": USER, "secret": PASSWORD,
        "/etc/switchgear/ca.pem": str(secured.authority.cafile), "/etc/switchgear/client.pem": str(certfile),
        "/etc/switchgear/client.key": str(keyfile),
    }  # fmt: skip

    def replaced(text):
        for old, new in put.items():
            text = text.replace(old, new)
        return text

    return replaced


@pytest.fixture
def check(ours, secured, tmp_path):
    """Return ``check(code, variables)``, which returns what a program of the page prints with these variables."""

    def run(code, variables):
        given = {name: ours(value) for name, value in variables.items()}
        given |= {"SWITCHGEAR_KAFKA_SSL_CAFILE": str(secured.authority.cafile), "SWITCHGEAR_TOPIC_PREFIX": "tls."}
        with python(code, log=tmp_path / "check.log", extra=given) as child:
            assert child.wait_for_exit(READY_S) == 0, child.output()
        return child.output()

    return run


@pytest.mark.parametrize(
    "variables",
    [BY_PASSWORD, BY_PASSWORD | {"SWITCHGEAR_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}, BY_CERTIFICATE],
    ids=["PLAIN", "SCRAM-SHA-512", "certificate"],
)
def test_tls_check_is_true_with_the_variables_of_the_page(check, variables):
    assert check(CODE["check.py"], variables) == snippets(PAGE, "output")[0]


def test_tls_check_is_false_with_a_wrong_password_and_gives_the_reason(check):
    quick = CODE["check.py"].replace("10", "2") + "    gear.close(0)\n"
    said = check(quick, BY_PASSWORD | {"SWITCHGEAR_KAFKA_SASL_PASSWORD": "wrong"})
    assert "reads: False" in said
    assert "writes: False" in said
    assert "Authentication failed" in said


def test_code_of_the_tls_page_connects(check, ours):
    code = ours(CODE["in_code.py"]).replace(f'service="{USER}"', f'service="{USER}", topic_prefix="tls."')
    assert check(f"{code}\nprint(gear.start(wait=40))\ngear.close()", {}) == "True\n"
