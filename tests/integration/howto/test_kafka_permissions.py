"""docs/howto/kafka-permissions.md: these permissions are enough, and a process reports a missing one."""

from __future__ import annotations

import asyncio
import re
import shlex
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaProducer

from switchgear import Switchgear
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.settings import load_settings
from tests.integration.howto.pages import statuses
from tests.support.java_client import permit
from tests.support.limits import HAPPEN_S
from tests.support.processes import all_ended, run, switchgear
from tests.support.secured import PASSWORD
from tests.support.snippets import snippets
from tests.support.waiting import until

pytestmark = pytest.mark.deep

SERVICE, OURS = (
    [shlex.split(line) for line in block.splitlines()] for block in snippets("docs/howto/kafka-permissions.md", "sh")
)
EXECUTIONS, CIRCUITS = "switchgear.executions", "switchgear.circuits"


@pytest.fixture(scope="module")
def plain(secured):
    """Return the settings of the listener without permissions. The topics of the page exist."""
    settings = load_settings(kafka_bootstrap_servers=secured.plain, topic_partitions=4)
    asyncio.run(ensure_topics(settings))
    return settings


@pytest.fixture(scope="module")
def give(secured, plain):
    """Return ``give(line, …)``, which runs lines of the page for the users that they name or for ``users``."""

    def at_once(*lines, users=()):
        def one(line):
            program, option, address, *words = line
            assert (program, option, address) == ("kafka-acls.sh", "--bootstrap-server", "localhost:9092")
            if users:
                place = words.index("--allow-principal")
                words[place : place + 2] = [word for user in users for word in ("--allow-principal", f"User:{user}")]
            permit(option, secured.plain, *words)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, lines))

    return at_once


@pytest.fixture(scope="module", autouse=True)
def _services(give):
    """Give one service the permissions of the page, one only reading, one only writing."""
    write, read = SERVICE
    give(write, users=("forecasts", "writer"))
    give(read, users=("forecasts", "reader"))


@pytest.fixture
def log_in(secured):
    """Return ``log_in(user)``, which returns a client of that user."""
    made = []

    def make(user):
        connection = KafkaConnection(
            secured.sasl_ssl,
            "SASL_SSL",
            sasl_username=user,
            sasl_password=PASSWORD,
            ssl_cafile=secured.authority.cafile,
        )
        made.append(Switchgear(connection, service=user))
        return made[-1]

    yield make
    for gear in made:
        gear.close(0)


@pytest.fixture
def denied(secured):
    """Return ``denied(user)``, which returns what the broker denied to that user, from its log."""

    before = len(secured.log.read_text())  # other tests use the same broker

    def look(user):
        log = secured.log.read_text()[before:]
        return re.findall(rf"User:{user} is Denied operation = (\w+) .*?:LITERAL:(\S+) for request", log)

    return look


@pytest.fixture
def of(secured, tmp_path):
    """Return ``of(user)``, which returns the settings of that user's processes."""

    def make(user):
        return load_settings(
            kafka_bootstrap_servers=secured.sasl_ssl, kafka_security_protocol="SASL_SSL", kafka_sasl_username=user,
            kafka_sasl_password=PASSWORD, kafka_ssl_cafile=secured.authority.cafile, topic_partitions=4,
            worker_http="127.0.0.1:0", api_http=f"127.0.0.1:{any_free_port()}", data_dir=tmp_path,
            clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}",
        )  # fmt: skip

    return make


def test_service_and_emit_need_only_the_two_permissions_of_the_page(log_in, of, plain, denied, tmp_path):
    gear = log_in("forecasts")
    assert gear.start(wait=HAPPEN_S), gear.status()
    gear.call("search", int)
    assert gear.flush(HAPPEN_S), gear.status()
    recording = tmp_path / "calls.jsonl"
    recording.write_text('{"tool_name": "search", "status": "timeout"}\n')
    done = run("emit", str(recording), settings=of("forecasts"))
    assert done.returncode == 0, done.stderr
    found = statuses(plain)
    assert found["success"] >= 1
    assert found["timeout"] == 1
    assert denied("forecasts") == []


def test_service_without_write_permission_reports_it_and_sends_the_waiting_events_later(give, log_in, caplog):
    gear = log_in("reader")
    assert gear.start(wait=HAPPEN_S), gear.status()
    gear.call("waited", int)
    says = f"The Kafka user 'reader' may not write to the topic {EXECUTIONS}. Allow it the operation Write there"
    until(lambda: says in caplog.text, HAPPEN_S)
    assert says in gear.status().emitter.last_error
    give(SERVICE[0], users=["reader"])
    assert gear.flush(HAPPEN_S), gear.status()


def test_service_without_read_permission_reports_it_and_calls_tools(give, log_in, denied, caplog):
    gear = log_in("writer")
    gear.start()
    says = f"The Kafka user 'writer' may not read the topic {CIRCUITS}. Allow it the operation Read there."
    until(lambda: says in caplog.text, HAPPEN_S)
    assert gear.status().follower.last_error == says
    assert ("DESCRIBE", CIRCUITS) in denied("writer"), "the broker's log shows what was denied"
    assert gear.call("search", lambda: "found") == "found"
    assert gear.flush(HAPPEN_S), gear.status()
    give(SERVICE[1], users=["writer"])
    assert gear.start(wait=HAPPEN_S), gear.status()


def test_worker_sink_and_operator_need_only_the_permissions_of_the_page(give, of, plain, denied, tmp_path):
    give(*OURS)
    operator, storing = of("operator"), of("sink")
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=of("worker"))
    sink = switchgear("sink", log=tmp_path / "sink.log", settings=storing)

    def operate(*arguments):
        done = run(*arguments, settings=operator)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with all_ended(worker, sink):
        operate("topics", "ensure")
        worker.wait_for_output(" ready ")
        sink.wait_for_output(" ready ")
        operate("open", "search", "--create", "--yes", "--reason", "test")
        operate("auto", "search")
        asyncio.run(send(plain, b"this is not an event"))
        worker.wait_until(lambda: "search" in operate("dead", "list", "--jsonl"), "writing dead letters")
        asked = ["sql", "SELECT count() FROM circuit_transitions", "--json"]
        sink.wait_until(lambda: re.search(r"[1-9]", run(*asked, settings=storing).stdout) is not None)
    for user in ("worker", "sink", "operator"):
        assert denied(user) == [], user


async def send(settings, value):
    """Send ``value`` unchanged to the executions topic."""
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka_bootstrap_servers) as producer:
        await producer.send_and_wait(settings.topics.executions, value, key=b"search")
