"""Where a client command looks: its option, then the environment, then a running `up`, then the default."""

import time

import pytest

from switchgear_cli.discovery import client_settings
from switchgear_cli.local.file_lock import FileLock
from switchgear_cli.up_record import LOCK_NAME, UpRecord

RECORD = UpRecord(
    pid=1,
    kafka_bootstrap_servers="127.0.0.1:19092",
    api_url="http://127.0.0.1:18620",
    topic_prefix="mine.",
    started_at=time.time(),
    pids={"sink": 7},
)


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def running(data_dir):
    """An `up` runs on the data folder: it holds the lock and has written its record."""
    with FileLock(data_dir / LOCK_NAME):
        RECORD.write(data_dir)
        yield data_dir


def test_without_anything_the_defaults_are_used(data_dir):
    settings = client_settings()
    assert settings.kafka_bootstrap_servers == "localhost:9092"
    assert settings.api_url == "http://127.0.0.1:8620"


def test_a_running_up_is_found(running):
    settings = client_settings()
    assert settings.kafka_bootstrap_servers == "127.0.0.1:19092"
    assert settings.api_url == "http://127.0.0.1:18620"
    assert settings.topic_prefix == "mine."


def test_the_environment_wins_over_a_running_up(running, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9092")
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://api.example")
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PREFIX", "theirs.")
    settings = client_settings()
    assert settings.kafka_bootstrap_servers == "kafka.example:9092"
    assert settings.api_url == "http://api.example"
    assert settings.topic_prefix == "theirs."


def test_an_option_wins_over_the_environment(running, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://api.example")
    assert client_settings(api_url="http://option.example").api_url == "http://option.example"


def test_an_option_that_was_not_given_changes_nothing(running):
    assert client_settings(api_url=None).api_url == "http://127.0.0.1:18620"


def test_the_settings_file_wins_over_a_running_up(running, tmp_path, monkeypatch):
    file = tmp_path / "switchgear.toml"
    file.write_text('kafka_bootstrap_servers = "file.example:9092"\n')
    monkeypatch.setenv("SWITCHGEAR_CONFIG", str(file))
    assert client_settings().kafka_bootstrap_servers == "file.example:9092"


def test_the_record_of_a_killed_up_is_not_believed(data_dir):
    RECORD.write(data_dir)
    assert client_settings().kafka_bootstrap_servers == "localhost:9092"


def test_an_up_that_is_starting_has_no_record_yet(data_dir):
    with FileLock(data_dir / LOCK_NAME):
        assert UpRecord.running(data_dir) is None


def test_a_record_that_is_not_one_is_not_believed(running):
    (running / "up.json").write_text("{not json")
    assert UpRecord.running(running) is None


def test_a_record_is_read_back_as_it_was_written(running):
    assert UpRecord.running(running) == RECORD


def test_removing_a_record_twice_is_harmless(running):
    UpRecord.remove(running)
    UpRecord.remove(running)
    assert not (running / "up.json").exists()


@pytest.mark.parametrize(
    ("address", "url"), [("0.0.0.0:80", "http://127.0.0.1:80"), ("h.example:1", "http://h.example:1")]
)
def test_the_apis_own_address_gives_its_url(data_dir, monkeypatch, address, url):
    monkeypatch.setenv("SWITCHGEAR_API_HTTP", address)
    assert client_settings().api_url == url
