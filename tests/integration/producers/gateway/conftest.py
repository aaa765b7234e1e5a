"""One broker and one gateway for the files of this folder. The broker is not shared with other tests, because these freeze it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from tests.support.kafka import RunningKafka, own_kafka
from tests.support.running_gateway import running_gateway

TOKENS = {
    "emitter": {"roles": [Role.EMIT]},
    "reader": {"roles": [Role.READ]},
    "acme": {"roles": [Role.EMIT], "tenant": "acme"},
    "weather": {"roles": [Role.EMIT], "tools": ["mcp:weather:*"]},
}


@pytest.fixture(scope="package")
def broker(tmp_path_factory):
    """A broker that a test may freeze: ``broker.pid``."""
    with own_kafka(tmp_path_factory.mktemp("broker"), any_free_port()) as running:
        yield running


@pytest.fixture(scope="package")
def gateway_settings(broker, tmp_path_factory):
    """Settings for this broker, whose topics exist, with tokens."""
    path = tmp_path_factory.mktemp("access") / "tokens.toml"
    path.write_text("")
    settings = RunningKafka(broker.bootstrap).settings(
        gateway_http="127.0.0.1:0",
        gateway_otlp_grpc=f"127.0.0.1:{any_free_port()}",
        gateway_ack_s=3,
        access_tokens_file=path,
        access_cors_origins="https://console.example.com",
    )
    asyncio.run(ensure_topics(settings))
    return settings


@pytest.fixture(scope="package")
def tokens(gateway_settings):
    """The text of each token by its name, in the gateway's file."""
    document, texts = "", {}
    for name, rights in TOKENS.items():
        token, texts[name] = new_token(
            name, rights["roles"], tenant=rights.get("tenant"), tools=rights.get("tools", ())
        )
        document = with_token(document, token)
    gateway_settings.access_tokens_file.write_text(document)
    return texts


@pytest.fixture(scope="package")
def gateway(gateway_settings, tokens, tmp_path_factory):
    """A gateway process."""
    log: Path = tmp_path_factory.mktemp("gateway") / "gateway.log"
    with running_gateway(gateway_settings, log) as running:
        yield running
