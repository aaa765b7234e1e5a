from __future__ import annotations

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_stream.app import build_app
from switchgear_stream.intake import Consumer, Transport


@pytest.fixture
async def built():
    return build_app(load_settings(topic_prefix="t.", topic_partitions=3, worker_session_timeout_s=8))


async def test_faust_and_the_settings_give_the_changelog_the_same_name(built):
    app, table, _ = built
    assert table.changelog_topic_name == load_settings(topic_prefix="t.").topics.changelog
    assert app.conf.id == "t.worker"


async def test_faust_declares_no_topic_and_starts_no_web_server(built):
    app, _, _ = built
    assert app.conf.topic_allow_declare is False
    assert app.conf.topic_disable_leader is True
    assert app.conf.web_enabled is False
    assert not list(app.boot_strategy.web_server())


async def test_the_session_timeout_comes_from_the_settings_and_heartbeats_fit_in(built):
    app, _, _ = built
    assert app.conf.broker_session_timeout == 8
    assert app.conf.broker_heartbeat_interval * 3 <= 8 < app.conf.broker_request_timeout


async def test_both_input_topics_arrive_in_batches(built):
    app, _, topic = built
    assert isinstance(app.transport, Transport)
    assert app.transport.Consumer is Consumer
    assert app.transport.batched == set(topic.topics) == {"t.executions", "t.commands"}


async def test_faust_gets_every_broker():
    app, _, _ = build_app(load_settings(kafka_bootstrap_servers="one:9092, two:9093"))
    assert [(url.host, url.port) for url in app.conf.broker] == [("one", 9092), ("two", 9093)]


async def test_credentials_reach_faust():
    app, _, _ = build_app(
        load_settings(
            kafka_security_protocol="SASL_PLAINTEXT",
            kafka_sasl_mechanism="SCRAM-SHA-256",
            kafka_sasl_username="ada",
            kafka_sasl_password="secret",
        )
    )
    credentials = app.conf.broker_credentials
    assert (credentials.username, credentials.password, credentials.mechanism.value) == (
        "ada",
        "secret",
        "SCRAM-SHA-256",
    )


async def test_an_instance_id_makes_a_static_member():
    app, _, _ = build_app(load_settings(), instance_id="worker-1")
    assert app.conf.consumer_group_instance_id == "worker-1"
