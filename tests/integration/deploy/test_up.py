"""`switchgear up`: one command, the whole system, and nothing left behind."""

import json
import os
import signal
import socket
import time
import urllib.request
from contextlib import suppress

import httpx
import psutil
import pytest
from aiokafka import AIOKafkaProducer

from switchgear_cli.up_record import UpRecord
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.settings import load_settings
from tests.support.limits import ANSWER_S, HAPPEN_S, READY_S, STOP_S
from tests.support.processes import environment, run, switchgear
from tests.support.up import Up
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture(scope="module")
def token():
    """The token of an operator: its record for the API, and its text."""
    record, text = new_token("ada", [Role.OPERATE])
    return with_token("", record), text


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One system for several tests, the last of which stops it."""
    with Up(tmp_path_factory.mktemp("up") / "data", "--no-demo", first_start=True) as up:
        yield up


@pytest.fixture(scope="module")
def protected(tmp_path_factory, token):
    """One system with two workers and a protected API, whose components may be killed."""
    folder = tmp_path_factory.mktemp("protected") / "data"
    with Up(folder, "--no-demo", "--workers", "2", extra={"SWITCHGEAR_ACCESS_TOKENS": token[0]}) as up:
        yield up


def is_ready(api_url):
    with suppress(OSError), urllib.request.urlopen(f"{api_url}/readyz", timeout=ANSWER_S) as answer:
        return answer.status == 200
    return False


def ended(processes, within_s=STOP_S):  # a gateway finishes what it can without Kafka
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []


async def send(bootstrap, count):
    topic = load_settings().topics.executions
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(count):
            event = {"tool_name": "mcp:a:b", "status": "success", "execution_time_ms": number}
            await producer.send(topic, json.dumps(event).encode(), key=b"mcp:a:b")
        await producer.flush()


@pytest.mark.deep
async def test_the_data_outlive_kill_9_and_a_clean_end_and_need_no_folder_for_the_record(folder, tmp_path, monkeypatch):
    with Up(folder, "--no-demo") as up:
        await send(up.record()["kafka_bootstrap_servers"], 50)
        until(lambda: up.count() == 50, HAPPEN_S)
        processes = up.tree()
        up.child.kill9()
        assert ended(processes)
        assert (folder / "up.json").exists()
        assert UpRecord.running(folder) is None, "the record of a killed one is not believed"
    with Up(folder, "--no-demo") as again:
        assert again.count() == 50
        assert again.child.terminate() == 0
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with Up(folder, "--no-demo") as unrecorded:
        assert "Commands can't find this system by themselves: Not a directory" in unrecorded.child.output()
        assert unrecorded.count() == 50, "the data folder names it as well"
        assert unrecorded.exported().keys() == {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "SWITCHGEAR_API_URL"}


def test_a_second_up_on_the_same_folder_says_where_the_first_is(running):
    second = run("up", "--data-dir", str(running.folder))
    assert second.returncode == 1
    assert f"already runs on {running.folder} (process {running.child.pid})" in second.stderr
    assert running.record()["api_url"] in second.stderr
    assert "--data-dir" in second.stderr
    assert running.child.alive


def test_logs_are_in_files_and_nothing_of_them_on_the_terminal(running):
    assert {path.name for path in (running.folder / "logs").iterdir()} >= {"kafka.log", "worker-1.log", "sink.log"}
    assert "[info" not in running.child.output()


async def test_up_answers_is_sound_for_the_doctor_and_stops_cleanly(running):
    record = running.record()
    assert is_ready(record["api_url"])
    assert is_ready(record["gateway_url"])
    assert set(record["pids"]) == {"kafka", "worker-1", "sink", "gateway"}
    await send(record["kafka_bootstrap_servers"], 100)
    until(lambda: running.count() == 100, HAPPEN_S)
    checked = running.ask("doctor", "--timeout", "60")
    assert checked.returncode == 0, checked.stdout
    processes = running.tree()
    assert 5 <= len(processes) <= 7, "those of the queries above are ended or wait for the next"
    began = time.monotonic()
    assert running.child.interrupt() == 0
    assert time.monotonic() - began < 20
    assert ended(processes)
    assert not (running.folder / "up.json").exists()
    assert "the data are kept" in running.child.output()


@pytest.mark.deep
def test_several_workers_share_the_tools(protected):
    assert {"worker-1", "worker-2"} <= protected.record()["pids"].keys()


@pytest.mark.deep
def test_up_reads_its_own_protected_api_with_a_token_of_its_own(protected, token):
    assert (
        httpx.get(f"{protected.record()['api_url']}/v1/circuits", trust_env=False, timeout=HAPPEN_S).status_code == 401
    )
    opened = run("open", "mcp:a:b", "--create", extra=protected.exported() | {"SWITCHGEAR_TOKEN": token[1]})
    assert opened.returncode == 0, opened.stderr
    protected.child.wait_for_output("→ forced_open")
    assert "The API answered" not in protected.child.output()


@pytest.mark.deep
def test_a_request_to_a_gateway_that_was_killed_waits_for_the_next_one(protected):
    url, before = protected.record()["gateway_url"], protected.record()["pids"]["gateway"]
    os.kill(before, signal.SIGKILL)
    protected.child.wait_for_output("gateway restarting")
    answer = httpx.get(f"{url}/readyz", trust_env=False, timeout=READY_S)
    assert int(answer.headers["Switchgear-Pid"]) not in {before, protected.child.pid}
    until(lambda: "gateway" in protected.record()["pids"], READY_S)


@pytest.mark.deep
def test_components_that_die_are_started_again_and_that_is_shown(protected):
    before = protected.record()["pids"]
    for name in ("worker-1", "sink", "kafka"):
        os.kill(before[name], signal.SIGKILL)
    for name in ("worker-1", "sink", "kafka"):
        protected.child.wait_for_output(f"{name} restarting", READY_S)
    api_url = protected.record()["api_url"]
    until(lambda: protected.record()["pids"].keys() == before.keys() and is_ready(api_url), READY_S)
    after = protected.record()["pids"]
    assert all(after[name] != before[name] for name in ("worker-1", "sink", "kafka"))
    assert "SIGKILL" in protected.child.output()


def test_a_requested_port_in_use_is_named_by_its_flag(folder):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        for flag in ("--api-port", "--gateway-port", "--worker-port", "--otlp-port", "--kafka-port"):
            done = run("up", "--data-dir", str(folder), flag, str(port))
            assert done.returncode == 1
            assert done.stderr == (
                f"switchgear: {flag} {port}: the port is in use. Stop what uses it, or leave {flag} out.\n"
            )
            assert not (folder / "kafka").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    done = run("up", "--data-dir", str(tmp_path / "file" / "data"))
    assert done.returncode == 1
    assert "--data-dir" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_during_the_start_leaves_no_process(folder, tmp_path):
    with switchgear("up", "--data-dir", str(folder), log=tmp_path / "up.log") as child:
        child.wait_for_output("kafka starting", READY_S)
        own = psutil.Process(child.pid)
        processes = [own, *own.children(recursive=True)]
        assert child.interrupt() == 0
        assert ended(processes)


@pytest.mark.deep
def test_the_demo_is_labelled_and_a_circuit_opens_is_probed_and_closes(folder):
    with Up(folder, "--demo") as up:
        up.child.wait_for_output("Demo traffic")
        ready_at = time.monotonic()
        for change in ("closed → open", "open → half_open", "half_open → closed"):
            up.child.wait_for_output(f"mcp:weather:get_forecast {change}", READY_S)
        assert time.monotonic() - ready_at < 120
        shown = up.ask("circuits", "--json")
        assert shown.returncode == 0
        assert "mcp:weather:get_forecast" in shown.stdout
        assert up.value("SELECT count() FROM tool_metrics WHERE NOT startsWith(service, 'demo-')") == 0
        processes = up.tree()
        assert 8 <= len(processes) <= 10, "those of the queries above are ended or wait for the next"
        assert up.child.interrupt() == 0
        assert ended(processes)


def test_environment_of_the_tests_reaches_no_child(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://somewhere.example")
    assert not [name for name in environment() if name.startswith("SWITCHGEAR_")]
