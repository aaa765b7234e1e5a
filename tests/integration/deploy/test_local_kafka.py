"""Our own broker: it starts, keeps its data, dies with its parent, and says what is wrong when it cannot start."""

import os
import shutil
import socket
import subprocess
import sys
import time

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from switchgear_cli.local import kafka as kafka_module
from switchgear_cli.local.kafka import LocalKafka, brokers_online
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.settings import load_settings


@pytest.fixture
def broker(tmp_path):
    kafka = LocalKafka(tmp_path / "kafka", any_free_port())
    yield kafka
    kafka.kill()


def settings_of(kafka):
    return load_settings(kafka_bootstrap_servers=kafka.bootstrap, topic_partitions=2)


async def read_all(settings, count):
    values = []
    async with AIOKafkaConsumer(
        settings.topics.circuits, **settings.kafka.options(), auto_offset_reset="earliest"
    ) as consumer:
        deadline = time.monotonic() + 30
        while len(values) < count and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                values += [record.value for record in records]
    return values


async def write(settings):
    await ensure_topics(settings)
    async with AIOKafkaProducer(**settings.kafka.options(), acks="all") as producer:
        for number in range(10):
            await producer.send_and_wait(settings.topics.circuits, str(number).encode(), key=b"k")


async def assert_written(settings):
    assert await read_all(settings, 10) == [str(number).encode() for number in range(10)]
    assert {report.status for report in await ensure_topics(settings)} == {"ok"}


@pytest.mark.deep
async def test_a_killed_broker_has_its_data_when_it_starts_again(broker):
    broker.start()
    await write(settings_of(broker))
    broker.kill()
    assert broker.pid is None
    broker.start()
    await assert_written(settings_of(broker))


@pytest.mark.deep
async def test_a_broker_that_is_stopped_leaves_no_process_and_its_data_serve_under_another_port(broker, tmp_path):
    broker.start()
    with pytest.raises(RuntimeError, match="runs already"):
        broker.spawn()
    await write(settings_of(broker))
    pid = broker.pid
    broker.stop()
    assert not psutil.pid_exists(pid)
    assert broker.pid is None
    broker.stop()  # again: nothing happens
    assert "Kafka Server started" in broker.log_file.read_text()
    assert (broker.data_dir / "kafka.out").read_text() == "", "Java says nothing"
    with LocalKafka(tmp_path / "kafka", any_free_port()) as moved:
        await assert_written(settings_of(moved))


def test_kill_9_of_the_parent_leaves_no_java(tmp_path):
    script = (
        "import sys, time, pathlib\n"
        "from switchgear_cli.local.kafka import LocalKafka\n"
        "kafka = LocalKafka(pathlib.Path(sys.argv[1]), int(sys.argv[2])); kafka.start()\n"
        "print(kafka.pid, flush=True); time.sleep(120)"
    )
    port = any_free_port()
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "kafka"), str(port)], stdout=subprocess.PIPE
    ) as parent:
        java = int(parent.stdout.readline())
        assert brokers_online("127.0.0.1", port) == 1
        parent.kill()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(java) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(java) or psutil.Process(java).status() == psutil.STATUS_ZOMBIE


def test_a_port_in_use_is_reported_before_anything_starts(broker):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", broker.port))
        listener.listen()
        with pytest.raises(SwitchgearError, match=rf"Port {broker.port} is in use\. Choose another by --kafka-port"):
            broker.start()
    assert broker.pid is None


@pytest.mark.deep
def test_a_second_broker_on_the_same_data_is_refused_with_the_reason(broker, tmp_path):
    broker.start()
    second = LocalKafka(tmp_path / "kafka", any_free_port(), log_file=tmp_path / "second.log")
    with pytest.raises(SwitchgearError, match="Another Kafka uses the data"):
        second.start()
    assert second.pid is None
    assert brokers_online("127.0.0.1", broker.port) == 1
    broker.kill()
    with second:  # a lock that outlives its broker would refuse this one
        assert brokers_online("127.0.0.1", second.port) == 1


def test_a_full_disk_is_reported_before_anything_starts(broker, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(kafka_module.shutil, "disk_usage", lambda _: usage._replace(free=5 * 1024 * 1024))
    with pytest.raises(SwitchgearError, match=r"is full \(5 MB left.*--data-dir"):
        broker.start()


def test_a_data_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SwitchgearError, match=r"cannot be kept in .*--data-dir"):
        LocalKafka(tmp_path / "file" / "kafka", any_free_port()).start()


@pytest.mark.deep
def test_a_broker_that_does_not_serve_in_time_is_ended(tmp_path):
    broker = LocalKafka(tmp_path / "kafka", any_free_port(), start_timeout_s=0.05)
    with pytest.raises(BrokerUnavailableError, match="did not serve within 0 s"):
        broker.start()
    assert broker.pid is None


@pytest.mark.deep
def test_a_format_that_was_interrupted_is_done_again_and_a_developers_environment_does_not_matter(broker, monkeypatch):
    broker.data_dir.mkdir(parents=True)
    half = broker.data_dir / "log.formatting"
    half.mkdir()
    (half / "meta.properties").write_text("half a line")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1m")
    monkeypatch.setenv("PATH", os.devnull)
    broker.start()
    assert not half.exists()
    assert brokers_online("127.0.0.1", broker.port) == 1


def test_a_port_without_a_broker_does_not_answer():
    port = any_free_port()
    assert brokers_online("127.0.0.1", port, 0.5) == 0
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", port))
        silent.listen()
        began = time.monotonic()
        assert brokers_online("127.0.0.1", port, 0.3) == 0
        assert time.monotonic() - began < 5
