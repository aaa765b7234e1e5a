"""One description of how to reach Kafka serves every client."""

import ssl

import pytest
from aiokafka.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError

from switchgear_schemas import SwitchgearError
from switchgear_schemas.connection import KafkaConnection
from tests.support.certificates import Authority


def test_a_plain_broker_needs_only_its_address():
    assert KafkaConnection("b:9092").options() == {"bootstrap_servers": "b:9092", "security_protocol": "PLAINTEXT"}


@pytest.mark.slow
def test_sasl_over_tls_carries_credentials_and_a_context_that_verifies():
    options = KafkaConnection("b:9093", "SASL_SSL", "SCRAM-SHA-512", "me", "secret").options()
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "secret")
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED


@pytest.mark.slow
def test_tls_without_sasl_sends_no_credentials():
    assert "sasl_plain_username" not in KafkaConnection("b:9093", "SSL", sasl_username="me").options()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def client(authority):
    return authority.sign("client")


def tls(**given):
    return KafkaConnection("b:9093", "SSL", **given)


def test_a_client_certificate_is_loaded_from_one_file_or_from_two(authority, client, tmp_path):
    certfile, keyfile = client
    together = tmp_path / "both.pem"
    together.write_bytes(certfile.read_bytes() + keyfile.read_bytes())
    for given in ({"ssl_certfile": certfile, "ssl_keyfile": str(keyfile)}, {"ssl_certfile": together}):
        assert tls(ssl_cafile=authority.cafile, **given).options()["ssl_context"].verify_mode is ssl.CERT_REQUIRED


@pytest.mark.slow
def test_an_encrypted_key_is_opened_by_its_password(authority):
    certfile, keyfile = authority.sign("secret", password="hunter2")
    connection = tls(ssl_certfile=certfile, ssl_keyfile=keyfile, ssl_key_password="hunter2")
    assert connection.options()["ssl_context"]
    assert "hunter2" not in repr(connection)


@pytest.mark.slow
@pytest.mark.parametrize(("password", "says"), [(None, "is encrypted"), ("wrong", "can't be decrypted")])
def test_an_encrypted_key_without_its_password_is_an_error_and_no_prompt_appears(authority, password, says):
    certfile, keyfile = authority.sign("secret", password="hunter2")
    with pytest.raises(SwitchgearError, match=rf"{says}.*ssl_key_password \(setting kafka_ssl_key_password\)") as error:
        tls(ssl_certfile=certfile, ssl_keyfile=keyfile, ssl_key_password=password)
    assert str(keyfile) in str(error.value)
    assert "wrong" not in str(error.value)


@pytest.mark.slow
def test_a_certificate_without_a_key_names_the_argument_that_is_missing(client):
    with pytest.raises(SwitchgearError, match=r"no certificate with its private key.*ssl_keyfile"):
        tls(ssl_certfile=client[0])
    with pytest.raises(SwitchgearError, match=r"ssl_keyfile is given without a certificate.*ssl_certfile"):
        tls(ssl_keyfile=client[1])


@pytest.mark.slow
def test_a_key_of_another_certificate_is_an_error(authority, client):
    with pytest.raises(SwitchgearError, match="not a certificate and its private key"):
        tls(ssl_certfile=client[0], ssl_keyfile=authority.sign("other")[1])


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
def test_a_certificate_file_that_is_not_there_is_named(client, tmp_path, name):
    given = {"ssl_certfile": client[0], "ssl_keyfile": client[1]} | {name: tmp_path / "missing.pem"}
    with pytest.raises(SwitchgearError, match=rf"{name} \(setting kafka_{name}\) names .*missing\.pem.*No such file"):
        tls(**given)


def test_a_ca_file_that_is_not_pem_is_named(tmp_path):
    keystore = tmp_path / "truststore.jks"
    keystore.write_bytes(b"\xfe\xed\xfe\xed\x00\x00")
    with pytest.raises(SwitchgearError, match=r"truststore\.jks, which holds no certificate in PEM format"):
        tls(ssl_cafile=keystore)


def test_certificate_files_are_not_read_without_tls(tmp_path):
    assert KafkaConnection("b:9092", ssl_cafile=tmp_path / "missing.pem").options()["security_protocol"] == "PLAINTEXT"


@pytest.mark.slow
def test_a_certificate_is_read_again_for_each_new_client(authority, tmp_path):
    certfile, keyfile = authority.sign("renewed")
    connection = tls(ssl_certfile=certfile, ssl_keyfile=keyfile)
    certfile.write_text("half written")
    with pytest.raises(SwitchgearError, match=r"renewed\.pem"):
        connection.options()
    authority.sign("renewed")
    assert connection.options()["ssl_context"]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "sasl_username (setting kafka_sasl_username) and sasl_password"),
        ({"sasl_username": "me"}, "Give sasl_password (setting kafka_sasl_password)"),
        ({"sasl_password": "hunter2"}, "Give sasl_username (setting kafka_sasl_username)"),
        ({"sasl_username": "me", "sasl_password": ""}, "Give sasl_password"),
    ],
)
def test_sasl_without_credentials_names_what_is_missing(given, missing):
    with pytest.raises(SwitchgearError) as error:
        KafkaConnection("b:9093", "SASL_SSL", **given)
    assert missing in str(error.value)
    assert "hunter2" not in str(error.value)


def test_an_unknown_mechanism_is_named_with_those_that_work():
    with pytest.raises(SwitchgearError, match=r"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, not 'OAUTHBEARER'"):
        KafkaConnection("b:9093", "SASL_SSL", "OAUTHBEARER", "me", "secret")


@pytest.mark.parametrize(
    ("error", "operation", "says"),
    [
        (
            TopicAuthorizationFailedError("executions"),
            "Read",
            "The Kafka user 'me' may not read the topic circuits. Allow it the operation Read there.",
        ),
        (
            ClusterAuthorizationFailedError(),
            "Write",
            (
                "The Kafka user 'me' may not write to the topic circuits. Allow it the operation Write there, and on"
                " brokers before 2.8 IdempotentWrite on the cluster."
            ),
        ),
    ],
)
def test_a_missing_permission_names_the_user_the_topic_and_the_operation(error, operation, says):
    connection = KafkaConnection("b:9093", "SASL_PLAINTEXT", sasl_username="me", sasl_password="secret")
    assert str(connection.missing_permission(error, operation, "circuits")) == says


def test_a_missing_permission_is_explained_without_a_user_name():
    error = KafkaConnection("b:9092").missing_permission(TopicAuthorizationFailedError("circuits"), "Read", "circuits")
    assert str(error).startswith("The Kafka user of this process may not read the topic circuits.")


def test_another_error_is_not_explained_as_a_missing_permission():
    assert KafkaConnection("b:9092").missing_permission(ConnectionError("refused"), "Read", "circuits") is None
