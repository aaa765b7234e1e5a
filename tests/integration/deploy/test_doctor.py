"""`switchgear doctor` and `switchgear watch` on real systems: a healthy one, one with wrong topics, one that denies, and none."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import struct
import subprocess
import sys
import time
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import load_settings
from switchgear_schemas.topics import TopicNames
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment, run, switchgear
from tests.support.secured import PASSWORD
from tests.support.stream import emit
from tests.support.up import Up

pytestmark = pytest.mark.timeout(400)
ALL = [
    "settings", "files", "brokers", "topics", "replicas", "permissions", "broker's clock", "workers", "sinks", "alerts",
    "circuits", "API", "events", "emitters' clocks", "targets", "stored history",
    "worker's health", "ClickHouse",
]  # fmt: skip


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """A running system in which the tool `search` is refused and `fetch` is not."""
    with Up(tmp_path_factory.mktemp("doctor") / "data", "--no-demo") as system:
        settings = load_settings(kafka_bootstrap_servers=system.record()["kafka_bootstrap_servers"])
        broken = {
            "tool_name": "search",
            "status": "error",
            "error_class": "transport",
            "execution_time_ms": 1,
            "error_message": "no route",
        }
        calls = [broken | {"emitter_id": f"p{number % 3}"} for number in range(40)]
        asyncio.run(emit(settings, [*calls, {"tool_name": "fetch", "status": "success", "execution_time_ms": 1}]))
        deadline = time.monotonic() + HAPPEN_S
        while "1 open" not in (shown := system.ask("watch", "--once")).stdout:
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        yield system


def doctor(*arguments, code, **how):
    """Run the doctor, and return its findings by name."""
    done = run("doctor", "--json", *arguments, **how)
    assert done.returncode == code, done.stdout + done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)["checks"]}


def in_system(system):
    return {"extra": {"SWITCHGEAR_DATA_DIR": str(system.folder), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}}


@pytest.mark.deep
def test_doctor_finds_nothing_wrong_with_a_healthy_system(up):
    found = doctor("--timeout", "60", code=0, **in_system(up))  # what it finds, also while other tests use both cores
    assert list(found) == ALL
    status = {name: each["status"] for name, each in found.items()}
    others = {"broker's clock": "skip", "alerts": "skip", "ClickHouse": "skip", "targets": "warn"}
    assert status == dict.fromkeys(ALL, "ok") | others
    assert '[tools."fetch"] with target = "url.host"' in found["targets"]["todo"]
    assert found["brokers"]["seen"].endswith("Kafka 4.0 or later.")
    assert found["circuits"]["seen"].startswith("1 circuits") or found["circuits"]["seen"].startswith("2 circuits")
    assert found["workers"]["seen"].startswith("1 worker running. ")
    (worker,) = up.record()["worker_urls"]
    assert found["worker's health"]["seen"] == f"Ready: {worker}."


@pytest.mark.deep
def test_doctor_compares_the_clocks_when_a_call_ends_meanwhile(up):
    settings = load_settings(kafka_bootstrap_servers=up.record()["kafka_bootstrap_servers"])
    with subprocess.Popen(
        [sys.executable, "-m", "switchgear_cli", "doctor", "--json"],
        env=environment(extra=in_system(up)["extra"]), stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        while child.poll() is None:
            asyncio.run(emit(settings, [{"tool_name": "fetch", "status": "success", "execution_time_ms": 1}]))
        checks = {each["name"]: each for each in json.loads(child.stdout.read())["checks"]}
    assert checks["broker's clock"]["seen"] == "The broker's clock and the one here differ by less than 2 s."


@pytest.mark.deep
def test_watch_prints_one_frame_with_the_broken_tool_first(up):
    shown = up.ask("watch", "--once")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[1].startswith("1 open  0 half open")
    rows = [line.split()[0] for line in lines if line.startswith(("search ", "fetch "))]
    assert rows[0] == "search"
    assert "\x1b" not in shown.stdout
    piped = up.ask("watch")
    assert (piped.returncode, "--once" in piped.stderr) == (2, True)


@pytest.mark.deep
def test_watch_draws_on_a_terminal_until_q_and_leaves_it_as_it_was(up):
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = environment(extra=in_system(up)["extra"] | {"TERM": "xterm"})
    child = subprocess.Popen(
        [sys.executable, "-m", "switchgear_cli", "watch", "--interval", "0.2"], env=env, stdin=theirs, stdout=theirs
    )
    os.close(theirs)
    drawn = b""
    deadline = time.monotonic() + HAPPEN_S
    try:
        while drawn.count(b"search") < 2:
            assert time.monotonic() < deadline, drawn
            if select.select([ours], [], [], 1)[0]:
                drawn += os.read(ours, 65_536)
        os.write(ours, b"q")
        while child.poll() is None:
            assert time.monotonic() < deadline
            if select.select([ours], [], [], 0.1)[0]:
                with suppress(OSError):  # Linux: the other side has closed
                    drawn += os.read(ours, 65_536)
        with suppress(OSError):
            while more := os.read(ours, 65_536):
                drawn += more
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    assert child.returncode == 0
    assert drawn.count(b"\x1b[?1049h") == drawn.count(b"\x1b[?1049l") == 1
    assert b"\x1b[?25h" in drawn  # the cursor is shown again
    assert b"u001b" not in drawn  # what moves the cursor is not shown as text
    assert b"\x1b[2J" not in drawn.partition(b"search")[2]  # nothing is cleared between two frames


async def test_doctor_names_missing_topics_and_wrong_settings_of_topics_and_goes_on(kafka):
    settings = kafka.settings()
    names = settings.topics
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    try:
        wrong = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
        await admin.create_topics(
            [NewTopic(names.executions, 3, 1), NewTopic(names.circuits, 4, 1, topic_configs=wrong)]
        )
    finally:
        await admin.close()
    found = doctor("--timeout", "6", code=1, settings=settings)
    assert list(found) == ALL
    topics = found["topics"]
    assert topics["status"] == "fail"
    for part in (
        f"Kafka has no topic {names.commands}.",
        f"{names.executions} has 3 partitions, and circuits are kept in 4 (topic_partitions).",
        f"{names.executions}: message.timestamp.type is CreateTime, the settings want LogAppendTime.",
        f"{names.circuits}: cleanup.policy is delete, the settings want compact.",
    ):
        assert part in topics["seen"]
    assert "switchgear topics ensure" in topics["todo"].splitlines()
    assert f"--alter --topic {names.executions} --partitions 4" in topics["todo"]
    assert f"--entity-name {names.circuits} --add-config cleanup.policy=compact" in topics["todo"]
    assert found["circuits"]["seen"].startswith("0 circuits followed")
    assert found["workers"] | {"seconds": 0} == found["workers"] | {
        "status": "skip", "seen": f"Kafka has no topic {names.commands}.", "seconds": 0,
    }  # fmt: skip
    assert found["sinks"]["seen"].startswith("No sink is running.")
    assert found["sinks"]["todo"] == "switchgear sink"


def test_doctor_looks_whether_a_process_sends_alerts_and_reads_the_alerts_file(kafka, tmp_path):
    settings = kafka.settings()
    file = tmp_path / "alerts.toml"
    file.write_text('[receivers.chat]\ntype = "slack"\nurl = "env:NOT_SET_HERE"\n[[routes]]\nreceivers = ["char"]\n')
    wrong = doctor("--timeout", "6", code=1, settings=settings, extra={"SWITCHGEAR_ALERTS_FILE": str(file)})
    assert wrong["alerts"]["seen"] == f"Alerts are not used: Kafka has no topic {settings.topics.alerts}."
    assert "char" in wrong["files"]["seen"]
    file.write_text(
        '[receivers.am]\ntype = "alertmanager"\nurl = "http://127.0.0.1:1"\n[[routes]]\nreceivers = ["am"]\n'
    )
    assert run("topics", "ensure", settings=settings).returncode == 0
    arguments = ("alerts", "run", "--file", str(file), "--http", "127.0.0.1:0", "--state-dir", str(tmp_path))
    with switchgear(*arguments, log=tmp_path / "log", settings=settings) as child:
        deadline = time.monotonic() + READY_S
        while (found := doctor("--timeout", "6", code=1, settings=settings)["alerts"])["status"] != "ok":
            assert time.monotonic() < deadline, found
        assert found["seen"] == "1 process of switchgear alerts running."
        assert child.terminate() == 0
    ended = doctor("--timeout", "6", code=1, settings=settings)["alerts"]
    assert (ended["status"], ended["todo"]) == ("warn", "switchgear alerts run")


def test_doctor_without_a_broker_fails_within_its_limit_and_still_checks_the_rest():
    port = any_free_port()
    began = time.monotonic()
    found = doctor(
        "--timeout", "2", "--bootstrap-servers", f"127.0.0.1:{port}", "--api-url", f"http://127.0.0.1:{port}", code=1
    )
    assert time.monotonic() - began < 30
    assert list(found) == ALL
    assert f"No Kafka broker answered at 127.0.0.1:{port}" in found["brokers"]["seen"]
    assert found["topics"]["seen"] == "Not checked, because of brokers."
    assert found["API"]["status"] == "fail"
    assert found["settings"]["status"] == "ok"
    table = run("doctor", "--timeout", "1", "--bootstrap-servers", f"127.0.0.1:{port}")
    assert table.returncode == 1
    assert table.stdout.splitlines()[-1].startswith(f"{len(ALL)} checks: ")


def test_doctor_reports_settings_that_cannot_be_loaded_or_have_no_effect():
    found = doctor(code=1, extra={"SWITCHGEAR_TOPIC_PARTITIONS": "many"})
    assert "SWITCHGEAR_TOPIC_PARTITIONS" in found["settings"]["seen"]
    unused = doctor(
        "--timeout", "1", code=1, extra={"SWITCHGEAR_TOPIC_PREFX": "x.", "SWITCHGEAR_POLICY_FILE": "/nowhere.toml"}
    )
    assert unused["settings"]["status"] == "warn"
    assert "SWITCHGEAR_TOPIC_PREFX" in unused["settings"]["seen"]
    assert "/nowhere.toml" in unused["files"]["seen"]


@pytest.mark.deep
async def test_doctor_names_the_permissions_that_a_user_lacks_with_the_commands_that_give_them(secured):
    settings = load_settings(
        kafka_bootstrap_servers=secured.sasl_ssl, kafka_security_protocol="SASL_SSL", kafka_sasl_username="forecasts",
        kafka_sasl_password=PASSWORD, kafka_ssl_cafile=secured.authority.cafile, topic_prefix="doctor.", topic_partitions=1,
    )  # fmt: skip
    names = TopicNames("doctor.")
    plain = AIOKafkaAdminClient(bootstrap_servers=secured.plain)
    await plain.start()
    try:
        await plain.create_topics([NewTopic(each.name, 1, 1) for each in settings.topic_definitions()])
    finally:
        await plain.close()
    found = doctor("--role", "service", "--timeout", "6", code=1, settings=settings)["permissions"]
    assert found["status"] == "fail"
    assert f"Write on {names.executions}; Read on {names.circuits}" in found["seen"]
    assert (
        found["todo"]
        .splitlines()[0]
        .endswith(f"--add --allow-principal User:forecasts --operation Write --topic {names.executions}")
    )
    may = settings.model_copy(update={"kafka_sasl_username": "planner"})
    for role in ("worker", "operator"):
        assert doctor("--role", role, "--timeout", "6", code=1, settings=may)["permissions"]["status"] == "ok"
