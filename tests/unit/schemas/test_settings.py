"""Settings: environment over file over defaults, and a wrong one is named with the way out."""

import os
import re

import pytest

from switchgear_schemas import SettingsError, SwitchgearError, settings_sources
from switchgear_schemas.settings import Settings, load_client_settings, load_settings
from tests.support.certificates import Authority
from tests.support.snippets import REPOSITORY


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


def test_the_default_settings_are_for_one_machine():
    settings = load_settings()
    assert settings.kafka_bootstrap_servers == "localhost:9092"
    assert settings.embedded
    assert settings.topics.executions == "switchgear.executions"
    assert settings.topic_partitions == 12


def test_the_environment_overrides_the_file_and_an_option_overrides_both(config, monkeypatch):
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


def test_the_error_names_every_wrong_value_at_once(monkeypatch):
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


def test_the_error_of_a_wrong_option_calls_it_an_option():
    with pytest.raises(SettingsError, match="the option topic_partitions"):
        load_settings(topic_partitions=0)


def test_a_password_is_not_shown(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_SASL_PASSWORD", "hunter2")
    settings = load_settings()
    assert "hunter2" not in repr(settings) + repr(settings.kafka)
    assert settings.kafka.sasl_password == "hunter2"


def test_the_document_lists_every_setting_with_its_default_and_no_other():
    text = (REPOSITORY / "docs" / "configuration.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    listed.pop("data_dir")  # its default depends on the user
    shown = {
        name: ""
        if field.default is None
        else f"`{str(field.default).lower() if field.default is False else field.default}`"
        for name, field in Settings.model_fields.items()
        if name != "data_dir"
    }
    assert listed == shown


def test_topic_definitions_follow_the_settings():
    settings = load_settings(topic_prefix="a.", topic_partitions=4, topic_replication_factor=3)
    assert {(topic.partitions, topic.replication_factor) for topic in settings.topic_definitions()} == {(4, 3)}


# -- one file and one environment for every process ---------------------------------------------------------------------


def test_a_client_accepts_the_settings_of_other_processes_and_does_not_look_at_their_values(config):
    config('topic_prefix = "file."\nretention_days = "many"\nworker_http = "nowhere"')
    assert load_client_settings().topic_prefix == "file."
    with pytest.raises(SettingsError, match=r"retention_days.*worker_http"):
        load_settings()


def test_a_client_names_an_unknown_key_of_the_file(config, tmp_path):
    config('retention_day = 5\ntopic_prefix = "a."')
    with pytest.raises(SettingsError, match=r"retention_day\. Did you mean retention_days\?") as error:
        load_client_settings()
    assert str(tmp_path / "switchgear.toml") in str(error.value)


def test_a_table_in_the_file_is_an_error_that_says_where_its_keys_belong(config):
    config('[kafka]\nbootstrap_servers = "a:9092"')
    with pytest.raises(SettingsError, match=r"top level, such as kafka_bootstrap_servers"):
        load_settings()


def test_a_wrong_value_of_the_file_is_named_with_the_file(config):
    config("topic_prefix = 5")
    with pytest.raises(SettingsError, match=r"Wrong value 5 for topic_prefix in .*switchgear\.toml"):
        load_client_settings()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SWITCHGEAR_KAFKA_BOOTSTRAP", "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"),
        ("SWITCHGEAR_BOOTSTRAP_SERVERS", "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"),
        ("SWITCHGEAR_TOPICPREFIX", "SWITCHGEAR_TOPIC_PREFIX"),
        ("SWITCHGEAR_KAFKA_SASL_USER", "SWITCHGEAR_KAFKA_SASL_USERNAME"),
    ],
)
def test_a_mistyped_variable_is_logged_once_with_the_nearest_setting(monkeypatch, caplog, variable, meant):
    monkeypatch.setattr(settings_sources, "_warned", set())
    monkeypatch.setenv(variable, "hunter2")
    load_client_settings()
    load_settings()
    assert [record.getMessage() for record in caplog.records] == [
        f"The environment variable {variable} is not a setting and has no effect. Did you mean {meant}?"
    ]


@pytest.mark.parametrize(
    "variable",
    ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "API_PORT_8620_TCP_ADDR", "API_PORT", "TEST_BACKEND"],
)
def test_variables_of_kubernetes_and_of_the_tests_are_not_logged(monkeypatch, caplog, variable):
    monkeypatch.setenv(f"SWITCHGEAR_{variable}", "tcp://10.0.0.1:8620")
    load_settings()
    assert caplog.records == []


def test_a_variable_in_small_letters_is_read(monkeypatch):
    monkeypatch.setenv("switchgear_topic_prefix", "small.")
    assert load_settings().topic_prefix == "small."


def test_an_empty_variable_is_unset_if_the_default_is_nothing(monkeypatch):
    for name in ("KAFKA_SSL_CAFILE", "KAFKA_SASL_PASSWORD", "SERVICE", "SPOOL_DIR", "PARAMETERS_KEY", "LOCAL"):
        monkeypatch.setenv(f"SWITCHGEAR_{name}", "")
    found = load_client_settings()
    assert (found.kafka_ssl_cafile, found.kafka_sasl_password, found.service, found.local) == (None, None, None, False)


def test_an_empty_address_is_an_error(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "")
    with pytest.raises(SettingsError, match="SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS: must be host:port"):
        load_client_settings()


def test_an_address_with_a_scheme_is_an_error(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "kafka://broker:9092")
    with pytest.raises(SettingsError, match="must be host:port, got 'kafka://broker:9092'"):
        load_client_settings()


def test_protocol_and_mechanism_are_taken_in_any_case(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_SECURITY_PROTOCOL", "sasl_ssl")
    monkeypatch.setenv("SWITCHGEAR_KAFKA_SASL_MECHANISM", "scram-sha-512")
    found = load_settings(kafka_sasl_username="me", kafka_sasl_password="secret").kafka
    assert (found.security_protocol, found.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")


def test_a_client_certificate_comes_from_the_settings(monkeypatch, tmp_path):
    certfile, keyfile = Authority(tmp_path).sign("client", password="secret")
    for name, value in {
        "SECURITY_PROTOCOL": "SSL",
        "SSL_CAFILE": tmp_path / "ca.pem",
        "SSL_CERTFILE": certfile,
        "SSL_KEYFILE": keyfile,
        "SSL_KEY_PASSWORD": "secret",
    }.items():
        monkeypatch.setenv(f"SWITCHGEAR_KAFKA_{name}", str(value))
    assert load_settings().kafka.options()["ssl_context"]
    monkeypatch.delenv("SWITCHGEAR_KAFKA_SSL_KEY_PASSWORD")
    with pytest.raises(SwitchgearError, match="setting kafka_ssl_key_password"):
        _ = load_settings().kafka


@pytest.mark.parametrize("name", ["kafka_sasl_username", "kafka_ssl_cafile"])
def test_credentials_without_a_protocol_are_logged_because_nothing_uses_them(monkeypatch, caplog, name):
    monkeypatch.setenv(f"SWITCHGEAR_{name.upper()}", "hunter2")
    load_settings()
    assert name in caplog.text
    assert "kafka_security_protocol is not set" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_tilde_in_a_path_becomes_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "settings.toml").write_text('spool_dir = "~/spool"')
    monkeypatch.setenv("SWITCHGEAR_CONFIG", "~/settings.toml")
    assert load_client_settings().spool_dir == tmp_path / "spool"


def test_a_file_with_a_byte_order_mark_is_read(config, tmp_path):
    config("")
    (tmp_path / "switchgear.toml").write_bytes(b'\xef\xbb\xbftopic_prefix = "windows."')
    assert load_client_settings().topic_prefix == "windows."


def test_a_file_that_can_not_be_read_is_named(config, tmp_path):
    config("")
    (tmp_path / "switchgear.toml").write_bytes(b'topic_prefix = "\xff"')
    with pytest.raises(SettingsError, match=r"switchgear\.toml is not UTF-8"):
        load_client_settings()
    os.environ["SWITCHGEAR_CONFIG"] = str(tmp_path)
    with pytest.raises(SettingsError, match="not a file"):
        load_client_settings()


@pytest.mark.parametrize("name", ["kafka_sasl_password", "kafka_ssl_key_password", "parameters_key"])
def test_a_secret_of_the_wrong_kind_is_not_shown_in_the_error(config, name):
    config(f"{name} = 123456789")
    with pytest.raises(SettingsError, match=f"Wrong value for {name}") as error:
        load_client_settings()
    assert "123456789" not in str(error.value)


def test_a_key_for_permits_that_could_be_guessed_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_GATEWAY_PERMIT_KEY", "hunter2")
    with pytest.raises(SettingsError, match="at least 16 bytes") as error:
        load_settings()
    assert "hunter2" not in str(error.value)
    monkeypatch.setenv("SWITCHGEAR_GATEWAY_PERMIT_KEY", "")
    assert load_settings().gateway_permit_key is None


def test_the_password_in_an_address_of_the_store_is_not_shown(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_CLICKHOUSE_URL", "clickhouse://me:hunter2@store:9000/x")
    with pytest.raises(SettingsError, match="SWITCHGEAR_CLICKHOUSE_URL") as error:
        load_settings()
    assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(load_settings(clickhouse_url="http://me:hunter2@store:8123/x"))


@pytest.mark.parametrize("value", ["inf", "-Infinity", "nan", "1e999"])
@pytest.mark.parametrize("name", [name for name, field in Settings.model_fields.items() if field.annotation is float])
def test_no_number_is_infinite_or_none_at_all(monkeypatch, config, name, value):
    monkeypatch.setenv(f"SWITCHGEAR_{name.upper()}", value)
    with pytest.raises(SettingsError, match=f"SWITCHGEAR_{name.upper()}: Input should be (a finite number|g|l)"):
        load_settings()
    monkeypatch.delenv(f"SWITCHGEAR_{name.upper()}")
    config(f"{name} = {'nan' if value == 'nan' else 'inf'}")
    with pytest.raises(SettingsError, match=f"{name} in .*: Input should be"):
        load_settings()
