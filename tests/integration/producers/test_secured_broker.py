"""A process emits and follows over TLS, with credentials or a client certificate, by its environment alone."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear import Switchgear
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from tests.integration.producers.circuits import circuit, publish
from tests.support.limits import HAPPEN_S
from tests.support.processes import python
from tests.support.recount import read_topic
from tests.support.secured import PASSWORD, USER
from tests.support.waiting import until

PROGRAM = """
from switchgear import CircuitOpenError, Switchgear

with Switchgear.from_env() as gear:
    assert gear.start(wait=40), gear.status()
    try:
        gear.call("weather", print, "called although the fleet's circuit is open")
    except CircuitOpenError as refused:
        print(refused.source, refused.state)
    gear.call("search", int)
    assert gear.flush(40), gear.status()
"""


@pytest.fixture(scope="module")
def plain(secured):
    settings = load_settings(kafka_bootstrap_servers=secured.plain, topic_prefix="secured.", topic_partitions=2)
    asyncio.run(ensure_topics(settings))
    return settings


@pytest.fixture
def variables(secured):
    """The environment for each way to be let in."""
    certfile, keyfile = secured.authority.sign("client", password="open sesame")
    return {
        "credentials": {
            "KAFKA_BOOTSTRAP_SERVERS": secured.sasl_ssl,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_USERNAME": USER,
            "KAFKA_SASL_PASSWORD": PASSWORD,
            "KAFKA_SSL_CAFILE": str(secured.authority.cafile),
        },
        "a client certificate": {
            "KAFKA_BOOTSTRAP_SERVERS": secured.mutual_tls,
            "KAFKA_SECURITY_PROTOCOL": "SSL",
            "KAFKA_SSL_CAFILE": str(secured.authority.cafile),
            "KAFKA_SSL_CERTFILE": str(certfile),
            "KAFKA_SSL_KEYFILE": str(keyfile),
            "KAFKA_SSL_KEY_PASSWORD": "open sesame",
        },
    }


def environment(given, **more):
    return {f"SWITCHGEAR_{name}": value for name, value in (given | more).items()}


@pytest.mark.parametrize("way", ["credentials", "a client certificate"])
async def test_a_process_emits_and_follows_over_tls_by_its_environment_alone(plain, variables, tmp_path, way):
    await publish(plain, circuit("weather", "open", 1))
    given = environment(variables[way], TOPIC_PREFIX=plain.topic_prefix, SERVICE=way)
    log = tmp_path / "program.log"
    with python(PROGRAM, log=log, extra=given) as child:
        assert await asyncio.to_thread(child.wait_for_exit, 120) == 0, child.output()
    assert child.output().strip() == "fleet open", "and nothing else is printed"
    events = [
        json.loads(each.value) for each in await read_topic(plain.kafka_bootstrap_servers, plain.topics.executions)
    ]
    found = [(each["tool_name"], each["status"]) for each in events if each["service"] == way]
    assert ("search", "success") in found
    assert ("weather", "rejected") in found


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"KAFKA_SASL_PASSWORD": "not-the-password"}, "Authentication failed"),
        ({"KAFKA_SSL_CAFILE": ""}, "CERTIFICATE_VERIFY_FAILED"),
    ],
)
def test_what_the_broker_refuses_is_logged_and_the_password_is_not(plain, variables, monkeypatch, caplog, wrong, says):
    for name, value in environment(variables["credentials"] | wrong, TOPIC_PREFIX=plain.topic_prefix).items():
        monkeypatch.setenv(name, value)
    gear = Switchgear.from_env()
    try:
        gear.start()
        until(lambda: says in caplog.text, HAPPEN_S)
        assert gear.call("search", lambda: "called all the same") == "called all the same"
    finally:
        gear.close(0)
    for password in (PASSWORD, "not-the-password"):
        assert password not in caplog.text + str(gear.status())
