"""Several running `switchgear up`: each is a system of its own, and commands find and change the one that is meant."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psutil
import pytest

from switchgear_schemas.settings import load_settings
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import run
from tests.support.up import Up
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(500), pytest.mark.deep]
SYSTEMS = 4
TOOLS = "SELECT arraySort(groupUniqArray(tool_name)) FROM tool_metrics"
DAYS = "SELECT default_expression FROM system.columns WHERE table = 'tool_metrics' AND name = 'retention_days'"


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """Where the systems are recorded."""
    return str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def systems(tmp_path_factory, state):
    """Systems that started at the same moment, on default ports. The last test ends them."""
    found = [
        Up(tmp_path_factory.mktemp("system") / "data", "--no-demo", default_api=True, first_start=True)
        for _ in range(SYSTEMS)
    ]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("XDG_STATE_HOME", state)
        with ThreadPoolExecutor(SYSTEMS) as pool:
            list(pool.map(stack.enter_context, found))
        yield found


@pytest.fixture(autouse=True)
def default_folder(state, tmp_path, monkeypatch):
    """Where the data would be by default; nothing may make it."""
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return load_settings().data_dir


def readiness(url):
    return httpx.get(f"{url}/readyz", trust_env=False, timeout=ANSWER_S)


def test_systems_that_start_at_the_same_moment_on_default_ports_share_nothing(systems):
    records = [system.record() for system in systems]
    addresses = [
        address
        for each in records
        for address in (each["kafka_bootstrap_servers"], each["api_url"], each["gateway_url"], *each["worker_urls"])
    ]
    assert len(set(addresses)) == 4 * SYSTEMS
    for system, record in zip(systems, records, strict=True):
        for name, url in (
            ("sink", record["api_url"]),
            ("gateway", record["gateway_url"]),
            ("worker-1", record["worker_urls"][0]),
        ):
            answer = readiness(url)
            pid = int(answer.headers["Switchgear-Pid"])
            assert (answer.status_code, pid) == (200, record["pids"][name])
            assert psutil.Process(pid).ppid() == system.child.pid
        partitions = readiness(record["worker_urls"][0]).json()["partitions"]
        assert partitions == list(range(load_settings().topic_partitions)), "no other worker takes any from it"
        assert "restarting" not in system.child.output()

    for number, record in enumerate(records):
        calls = [{"tool_name": f"tool-{number}", "status": "success", "execution_time_ms": 1}] * (number + 1)
        body = "\n".join(map(json.dumps, calls))
        headers = {"Content-Type": "application/x-ndjson"}
        url = f"{record['gateway_url']}/v1/executions"
        sent = httpx.post(url, content=body, headers=headers, trust_env=False, timeout=ANSWER_S)
        assert sent.json() == {"accepted": number + 1, "rejected": []}
    for number, system in enumerate(systems):
        until(lambda system=system, number=number: system.count() >= number + 1, HAPPEN_S)
    for number, system in enumerate(systems):
        assert (system.count(), system.value(TOOLS)) == (number + 1, [f"tool-{number}"])

    looked = systems[-1].ask("doctor", "--json")
    found = {each["name"]: each["seen"] for each in json.loads(looked.stdout)["checks"]}
    assert found["worker's health"] == f"Ready: {records[-1]['worker_urls'][0]}."
    for system in systems:
        assert "restarting" not in system.child.output()
        assert system.child.alive


def test_commands_find_each_of_two_running_systems_and_change_the_one_that_is_named(systems, default_folder, tmp_path):
    one, two, *others = systems
    for other in others:
        assert other.child.interrupt() == 0
    for command in (["retention", "set", "42"], ["circuits", "--json"], ["dead", "list"]):
        unnamed = run(*command)
        assert (unnamed.returncode, unnamed.stdout) == (2, "")
        for system in (one, two):
            assert str(system.folder) in unnamed.stderr
            assert f"export SWITCHGEAR_API_URL={system.record()['api_url']}\n" in unnamed.stderr
            kafka = system.record()["kafka_bootstrap_servers"]
            assert f"export SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS={kafka}\n" in unnamed.stderr

    before = one.value(DAYS)
    named = run("retention", "set", "7", "--tenant", "acme", extra=two.exported())
    assert named.returncode == 0, named.stderr
    assert str(two.folder / "clickhouse") in named.stdout
    assert "acme" in two.value(DAYS)
    assert one.value(DAYS) == before
    shown = run("retention", "show", "--json", extra=two.exported())
    assert json.loads(shown.stdout)["tenants"] == {"acme": 7}

    by_folder = run("retention", "set", "45", "--data-dir", str(one.folder), extra=two.exported())
    assert by_folder.returncode == 0, by_folder.stderr
    assert one.record()["api_url"] in by_folder.stdout
    assert one.value(DAYS) == "45"
    assert run("migrate", "--data-dir", str(one.folder)).returncode == 1, "it is open in another process"

    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"tool_name": "mcp:a:b", "status": "success", "execution_time_ms": 5}\n')
    sent = run("emit", str(calls), extra=two.exported())
    assert sent.returncode == 0, sent.stderr
    assert two.record()["kafka_bootstrap_servers"] in sent.stdout

    mixed = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": one.record()["kafka_bootstrap_servers"]}
    second_sink = run("sink", "--clickhouse", f"chdb:{tmp_path / 'third'}", extra=mixed)
    assert second_sink.returncode == 2
    assert str(one.folder) in second_sink.stderr

    two.child.kill9()
    alone = run("retention", "set", "41")  # what the killed one left is not believed
    assert alone.returncode == 0, alone.stderr
    assert str(one.folder / "clickhouse") in alone.stdout
    assert one.record()["api_url"] in alone.stdout
    assert one.value(DAYS) == "41"
    found = run("tools")
    assert found.returncode == 0, found.stderr
    assert one.child.interrupt() == 0

    nothing = run("retention", "set", "43")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "switchgear up" in nothing.stderr
    assert not default_folder.exists()
    assert not (tmp_path / "third").exists()

    stopped = run("retention", "set", "44", "--data-dir", str(one.folder))
    assert stopped.returncode == 0, stopped.stderr
    assert str(one.folder / "clickhouse") in stopped.stdout
    assert list((tmp_path / "home").glob("*")) == []
