"""One description of how to reach Kafka serves every client."""

import ssl

from switchgear_schemas.connection import KafkaConnection


def test_a_plain_broker_needs_its_address_only():
    assert KafkaConnection("b:9092").options() == {"bootstrap_servers": "b:9092", "security_protocol": "PLAINTEXT"}


def test_sasl_over_tls_carries_credentials_and_a_context_that_verifies():
    options = KafkaConnection("b:9093", "SASL_SSL", "SCRAM-SHA-512", "me", "secret").options()
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "secret")
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED


def test_tls_without_sasl_sends_no_credentials():
    assert "sasl_plain_username" not in KafkaConnection("b:9093", "SSL", sasl_username="me").options()
