"""A client is made from SWITCHGEAR_* variables and a TOML file; arguments win over both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchgear import CircuitFollower, Emitter, KafkaConnection, Switchgear, SwitchgearError
from switchgear.testing import InMemoryFleet
from switchgear_schemas import SettingsError
from tests.support.certificates import Authority
from tests.support.snippets import programs

SASL = {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_USERNAME": "me", "KAFKA_SASL_PASSWORD": "hunter2"}
Make = Callable[..., Any]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)

    def give(**variables: object) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"SWITCHGEAR_{name}", str(value))

    return give


@pytest.fixture
def make(environment: Callable[..., None]) -> Iterator[Make]:
    made = []

    def from_env(**arguments: Any) -> Switchgear:
        gear = Switchgear.from_env(**arguments)
        made.append(gear)
        return gear

    yield from_env
    for gear in made:
        gear.close(0)


def connection(gear: Switchgear) -> KafkaConnection:
    """The one that its emitter and its follower have."""
    assert gear._emitter is not None
    assert gear._follower is not None
    assert gear._emitter._connection == gear._follower._connection
    return gear._emitter._connection


def test_without_settings_the_broker_is_on_this_machine(make: Make) -> None:
    gear = make()
    assert connection(gear) == KafkaConnection("localhost:9092")
    assert gear._emitter._service == ""
    assert gear._follower._topic == "switchgear.circuits"


def test_brokers_credentials_prefix_and_service_come_from_the_environment(make: Make, environment: Make) -> None:
    environment(**SASL, KAFKA_BOOTSTRAP_SERVERS="a:1,b:2", TOPIC_PREFIX="prod.", SERVICE="planner")
    gear = make()
    assert connection(gear) == KafkaConnection("a:1,b:2", "SASL_PLAINTEXT", "PLAIN", "me", "hunter2")
    assert (gear._emitter._topic, gear._follower._topic) == ("prod.executions", "prod.circuits")
    assert gear._emitter._service == "planner"
    assert "hunter2" not in repr(vars(gear._emitter)) + repr(gear.status())


def test_the_file_is_read_below_the_environment_and_above_the_defaults(
    make: Make, environment: Make, tmp_path: Path
) -> None:
    file = tmp_path / "switchgear.toml"
    file.write_text('topic_prefix = "file."\nkafka_bootstrap_servers = "file:1"\nservice = "file"\nretention_days = 7')
    environment(CONFIG=file, KAFKA_BOOTSTRAP_SERVERS="env:1", SERVICE="env")
    gear = make(service="argument")
    assert (connection(gear).bootstrap_servers, gear._follower._topic) == ("env:1", "file.circuits")
    assert gear._emitter._service == "argument"


def test_every_argument_of_the_constructor_may_be_given(make: Make, environment: Make) -> None:
    environment(TOPIC_PREFIX="env.", SPOOL_DIR="/nowhere", PARAMETERS_KEY="k")
    gear = make(topic_prefix="own.", spool_dir=None, parameters_key=None, buffer_size=7, on_state_unavailable="deny")
    assert gear._emitter._topic == "own.executions"
    assert (gear._emitter._spool_router, gear._emitter.buffer.limit, gear._runtime.sends_hash) == (None, 7, False)
    assert gear.status().mode == "deny"
    with pytest.raises(TypeError, match="bootstrap_server"):
        make(bootstrap_server="a:1")
    with pytest.raises(SwitchgearError, match="probe_wait"):
        make(probe_wait=-1)


def test_brokers_given_as_text_keep_the_security_of_the_settings_and_a_connection_replaces_it(
    make: Make, environment: Make
) -> None:
    environment(**SASL, KAFKA_BOOTSTRAP_SERVERS="a:1")
    assert connection(make(bootstrap_servers="c:3")) == KafkaConnection(
        "c:3", "SASL_PLAINTEXT", "PLAIN", "me", "hunter2"
    )
    assert connection(make(bootstrap_servers=KafkaConnection("d:4"))) == KafkaConnection("d:4")
    fleet = InMemoryFleet()
    assert make(bootstrap_servers=fleet).start()
    with pytest.raises(SwitchgearError, match="bootstrap_servers must be host:port, or a KafkaConnection, not 5"):
        make(bootstrap_servers=5)


def test_spool_and_key_come_from_the_environment(make: Make, environment: Make, tmp_path: Path) -> None:
    environment(SPOOL_DIR=tmp_path / "spool", PARAMETERS_KEY="hunter2")
    gear = make()
    assert gear._emitter._spool_router is not None
    assert gear._runtime.sends_hash
    twin = make(spool_dir=None, parameters_key=b"hunter2")
    assert gear._runtime.hash({"city": "Oslo"}) == twin._runtime.hash({"city": "Oslo"})


def test_uses_the_service_name_of_opentelemetry_if_none_is_set(
    make: Make, environment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-otel")
    assert make()._emitter._service == "from-otel"
    assert make(service="argument")._emitter._service == "argument"
    environment(SERVICE="own")
    assert make()._emitter._service == "own"


@pytest.mark.parametrize("yes", ["true", "1", "yes"])
def test_local_switches_kafka_off_and_a_given_broker_switches_it_on(make: Make, environment: Make, yes: str) -> None:
    environment(LOCAL=yes, SERVICE="planner", TOPIC_PREFIX="p.")
    gear = make()
    assert (gear._emitter, gear._background, gear.status().mode) == (None, None, "local_only")
    assert gear.call("t", lambda: "called") == "called"
    assert connection(make(bootstrap_servers="a:1")) == KafkaConnection("a:1")


def test_a_client_without_brokers_is_local(make: Make) -> None:
    assert make(bootstrap_servers=None)._emitter is None


def test_from_env_makes_an_emitter_and_a_follower(environment: Make, tmp_path: Path) -> None:
    environment(**SASL, KAFKA_BOOTSTRAP_SERVERS="a:1", TOPIC_PREFIX="p.", SERVICE="s", SPOOL_DIR=tmp_path)
    emitter, follower = Emitter.from_env(linger_s=0.1), CircuitFollower.from_env(topic_prefix="own.")
    try:
        assert (emitter._connection.sasl_username, emitter._topic) == ("me", "p.executions")
        assert (emitter._service, emitter._linger_s, emitter._spool_router is None) == ("s", 0.1, False)
        assert (follower._connection.sasl_username, follower._topic) == ("me", "own.circuits")
    finally:
        emitter.close(0)
        follower.close(0)
    environment(LOCAL="true")
    for kind in (Emitter, CircuitFollower):
        with pytest.raises(SettingsError, match=f"local is true.*{kind.__name__}.*SWITCHGEAR_LOCAL"):
            kind.from_env()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"KAFKA_BOOTSTRAP_SERVERS": "localhost"}, "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS: must be host:port"),
        ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, "SWITCHGEAR_KAFKA_SECURITY_PROTOCOL.*SASL_SSL"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "kafka_sasl_username.*kafka_sasl_password"),
        (
            {"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CAFILE": "/nowhere/ca.pem"},
            "kafka_ssl_cafile.*/nowhere/ca.pem",
        ),
        ({"CONFIG": "/nowhere/switchgear.toml"}, "SWITCHGEAR_CONFIG names /nowhere/switchgear.toml"),
        ({"LOCAL": "perhaps"}, "SWITCHGEAR_LOCAL"),
        ({"PARAMETERS_KEY": 65 * "x"}, "SWITCHGEAR_PARAMETERS_KEY: must be 1 to 64 bytes"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(environment: Make, given: dict[str, str], says: str) -> None:
    environment(**given)
    with pytest.raises(SwitchgearError, match=says) as error:
        Switchgear.from_env()
    assert 65 * "x" not in str(error.value)


@pytest.mark.slow
def test_a_client_certificate_reaches_the_emitter_and_the_follower(
    make: Make, environment: Make, tmp_path: Path
) -> None:
    certfile, keyfile = Authority(tmp_path).sign("client")
    environment(KAFKA_SECURITY_PROTOCOL="SSL", KAFKA_SSL_CERTFILE=certfile, KAFKA_SSL_KEYFILE=keyfile)
    assert connection(make()).options()["ssl_context"]


def test_a_client_does_not_read_the_policy_file_of_the_worker(make: Make, environment: Make) -> None:
    environment(POLICY_FILE="/nowhere/policies.toml")
    gear = make()
    for _ in range(5):
        gear.try_acquire("t").failure(ConnectionError())
    assert not gear.try_acquire("t")


def test_the_document_gives_the_local_breakers_a_policy_file(
    environment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = next(each for each in programs("docs/reference/policy.md") if "from_env" in each.code)
    (tmp_path / "policies.toml").write_text('[tools."t"]\nconsecutive_failures = 2\n')
    monkeypatch.chdir(tmp_path)
    environment(LOCAL="true")
    names: dict[str, Any] = {}
    exec(shown.code, names)
    for _ in range(2):
        names["gear"].try_acquire("t").failure(ConnectionError())
    assert not names["gear"].try_acquire("t")
    assert names["policies"].effective("another").consecutive_failures == 5, "as a local breaker has it by default"
