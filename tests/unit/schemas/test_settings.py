"""Settings: environment over file over defaults, and a wrong one is named with the way out."""

import os

import pytest

from switchgear_schemas import SettingsError
from switchgear_schemas.settings import load_settings


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SWITCHGEAR_"):
            monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path, monkeypatch):
    def write(text):
        file = tmp_path / "switchgear.toml"
        file.write_text(text)
        monkeypatch.setenv("SWITCHGEAR_CONFIG", str(file))

    return write


def test_the_defaults_are_one_machine():
    settings = load_settings()
    assert settings.kafka_bootstrap_servers == "localhost:9092"
    assert settings.embedded
    assert settings.topics.executions == "switchgear.executions"
    assert settings.topic_partitions == 12


def test_the_environment_wins_over_the_file_and_an_option_over_both(config, monkeypatch):
    config('topic_prefix = "file."\nretention_days = 7\nsql_max_rows = 5')
    monkeypatch.setenv("SWITCHGEAR_RETENTION_DAYS", "8")
    monkeypatch.setenv("SWITCHGEAR_SQL_MAX_ROWS", "6")
    settings = load_settings(sql_max_rows=7)
    assert (settings.topic_prefix, settings.retention_days, settings.sql_max_rows) == ("file.", 8, 7)


def test_an_option_that_was_not_given_changes_nothing():
    assert load_settings(topic_prefix=None).topic_prefix == "switchgear."


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost"),
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092,other"),
        ("KAFKA_SECURITY_PROTOCOL", "TLS"),
        ("TOPIC_PREFIX", "bad prefix"),
        ("TOPIC_PARTITIONS", "0"),
        ("TOPIC_PARTITIONS", "many"),
        ("CLICKHOUSE_URL", "localhost:8123"),
        ("RETENTION_DAYS", "0"),
        ("WORKER_HTTP", "8621"),
        ("API_HTTP", "0.0.0.0:99999"),
        ("WORKER_SESSION_TIMEOUT_S", "1"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_is_named_by_its_variable(monkeypatch, variable, value):
    monkeypatch.setenv(f"SWITCHGEAR_{variable}", value)
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert f"SWITCHGEAR_{variable}" in str(error.value)
    assert value in str(error.value)


def test_every_wrong_value_is_told_at_once(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PARTITIONS", "0")
    monkeypatch.setenv("SWITCHGEAR_RETENTION_DAYS", "0")
    with pytest.raises(SettingsError, match=r"TOPIC_PARTITIONS.*RETENTION_DAYS"):
        load_settings()


def test_an_unknown_key_of_the_file_is_named_with_its_nearest(config):
    config('kafka_bootstrap_server = "localhost:9092"')
    with pytest.raises(SettingsError, match=r"kafka_bootstrap_server\. Did you mean kafka_bootstrap_servers\?"):
        load_settings()


def test_a_file_that_is_not_toml_is_named(config):
    config("kafka_bootstrap_servers = ")
    with pytest.raises(SettingsError, match=r"switchgear\.toml is not valid TOML"):
        load_settings()


def test_a_file_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_CONFIG", "/nowhere/switchgear.toml")
    with pytest.raises(SettingsError, match=r"/nowhere/switchgear\.toml"):
        load_settings()


def test_a_wrong_option_is_called_an_option():
    with pytest.raises(SettingsError, match="the option topic_partitions"):
        load_settings(topic_partitions=0)


def test_a_password_is_not_shown(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_SASL_PASSWORD", "hunter2")
    settings = load_settings()
    assert "hunter2" not in repr(settings) + repr(settings.kafka)
    assert settings.kafka.sasl_password == "hunter2"


def test_the_topics_follow_the_settings():
    settings = load_settings(topic_prefix="a.", topic_partitions=4, topic_replication_factor=3)
    assert {(topic.partitions, topic.replication_factor) for topic in settings.topic_definitions()} == {(4, 3)}
