"""The programs and commands of README.md and docs/events.md run. Only addresses and topic prefixes are those of the test."""

import asyncio
import json
import shlex
import shutil
import subprocess
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from switchgear_cli.local.ports import any_free_port
from switchgear_stream.inspect import read_rows
from tests.support import raw_mcp_server
from tests.support.limits import READY_S
from tests.support.processes import all_ended, environment, python, run, settings_environment, switchgear
from tests.support.recount import read_topic
from tests.support.running_gateway import running_gateway
from tests.support.snippets import REPOSITORY, snippets

GUARD, SUBSCRIBE = snippets("README.md", "python")
COMMANDS, FIRST, CURL, SERVERS, ASK, QUESTIONS, STEPS = snippets("README.md", "sh")
TOOL = "mcp:stocks:get_quote"
(EMIT,) = snippets("docs/events.md", "python")


def addressed(snippet, settings):
    """Return the snippet with the broker and topics of the test. What is replaced must be there."""
    code = snippet.replace('"localhost:9092"', f'"{settings.kafka_bootstrap_servers}"')
    assert code != snippet
    return code.replace('"switchgear.circuits"', f'"{settings.topics.circuits}"')


def guarding(log, **settings):
    """Start the guard example with ``settings`` in its environment, as `make up` prints them."""
    return python(GUARD, log=log, extra={f"SWITCHGEAR_{name.upper()}": value for name, value in settings.items()})


def attempts(guard):
    """Wait for the end of the example, and return what each attempt printed. Nothing else is printed."""
    assert guard.wait_for_exit(READY_S) == 0, guard.output()
    return [line.partition(": ")[2] for line in guard.output().splitlines()]


def check_failures_then_refusals(lines):
    assert len(lines) == 8, lines
    assert lines[:5] == ["the stock server is down, no quote for EQNR"] * 5
    assert all(line.startswith(f"refused. The tool {TOOL} is unavailable (circuit open).") for line in lines[5:])


def reporting_its_position(subscriber):
    """Return the subscriber with a line that it prints when it knows its position. It misses records from before."""
    before = "        async for record in consumer:\n"
    assert subscriber.count(before) == 1
    position = (
        "        for partition in consumer.assignment():\n"
        "            await consumer.position(partition)\n"
        "        print('ready to read', flush=True)\n"
    )
    return subscriber.replace(before, position + before)


def test_guard_example_of_the_readme_refuses_after_five_failures(settings, tmp_path):
    with python(GUARD, log=tmp_path / "guard.log", extra=settings_environment(settings)) as guard:
        check_failures_then_refusals(attempts(guard))


def test_guard_example_of_the_readme_prints_the_same_without_kafka(tmp_path):
    away = f"127.0.0.1:{any_free_port()}"
    with guarding(tmp_path / "guard.log", kafka_bootstrap_servers=away) as guard:
        assert guard.wait_for_exit(READY_S) == 0, guard.output()
    shown = guard.output().splitlines()
    check_failures_then_refusals([line.partition(": ")[2] for line in shown if line.startswith("attempt ")])
    assert sum("events that Kafka did not acknowledge" in line for line in shown) == 1


def test_subscriber_of_the_readme_is_notified_when_two_guards_open_the_fleets_circuit(make_settings, tmp_path):
    settings = make_settings(worker_http=f"127.0.0.1:{any_free_port()}")
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
    alerts = python(reporting_its_position(addressed(SUBSCRIBE, settings)), log=tmp_path / "alerts.log")
    with all_ended(worker, alerts):
        worker.wait_for_output("ready")
        alerts.wait_for_output("ready to read")
        guards = [  # the fleet's circuit needs evidence from two processes
            python(GUARD, log=tmp_path / f"guard{number}.log", extra=settings_environment(settings))
            for number in (1, 2)
        ]
        with all_ended(*guards):
            assert [guard.wait_for_exit(READY_S) for guard in guards] == [0, 0]
        alerts.wait_for_output(f"{TOOL} is open: cusum", timeout_s=READY_S)


def test_three_runs_of_the_guard_example_open_the_fleets_circuit_and_commands_show_it(make_settings, tmp_path):
    lines = [shlex.split(line, comments=True) for line in FIRST.splitlines()]
    assert lines[1:] == [["python", "first.py"]] * 3 + [["switchgear", "circuits"]]
    settings = make_settings(
        data_dir=tmp_path, clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}", worker_http=f"127.0.0.1:{any_free_port()}"
    )
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
    sink = switchgear("sink", log=tmp_path / "sink.log", settings=settings)

    def first_py(number):
        with python(GUARD, log=tmp_path / f"{number}.log", extra=settings_environment(settings)) as guard:
            return attempts(guard)

    def circuits():
        done = run("circuits", "--json", settings=settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with all_ended(worker, sink):
        worker.wait_for_output("ready")
        sink.wait_until(lambda: run("circuits", settings=settings).returncode == 0)

        check_failures_then_refusals(first_py(1))
        sink.wait_until(lambda: [each["refusals"] for each in circuits()["local_circuits"]] == [3])
        (circuit,) = circuits()["local_circuits"]
        assert (circuit["tool_name"], circuit["service"], circuit["processes"]) == (TOOL, "planner", 1)
        assert (circuit["state"], circuit["cause"]["rule"], circuit["cause"]["value"]) == (
            "open", "consecutive_failures", 5,
        )  # fmt: skip
        assert "the stock server is down" in circuit["last_error"]
        for command in (("circuits",), ("tool", TOOL)):
            shown = " ".join(run(*command, settings=settings).stdout.split())
            assert "Fleet: no circuit is open." in shown
            assert "Opened by processes on their own evidence (last 10 minutes)" in shown
            assert f"{TOOL} open planner 1 3" in shown
            assert "5 calls in a row failed" in shown

        check_failures_then_refusals(first_py(2))
        sink.wait_until(lambda: [each["state"] for each in circuits()["circuits"]] == ["open"])
        third = first_py(3)
        assert len(third) == 8
        assert all(line.startswith(f"refused. The tool {TOOL} is unavailable") for line in third)


async def test_emitter_example_of_the_events_page_sends_its_event(settings, tmp_path):
    code = addressed(EMIT, settings).replace(
        'service="billing"', f'service="billing", topic_prefix="{settings.topic_prefix}"'
    )
    with python(code, log=tmp_path / "emit.log") as emitter:
        assert emitter.wait_for_exit(READY_S) == 0, emitter.output()
    (record,) = await read_topic(settings.kafka_bootstrap_servers, settings.topics.executions)
    event = json.loads(record.value)
    assert (event["tool_name"], event["status"], event["service"]) == ("stripe:charge", "timeout", "billing")


def test_two_commands_of_the_readme_are_those_of_the_makefile():
    shown = [line.split("#")[0].strip() for line in COMMANDS.splitlines()]
    assert shown == ["make up", "make test"]
    for command, does in (("make up", "switchgear up --demo"), ("make test", "-m tests.support.side_by_side test")):
        planned = subprocess.run(
            [*command.split(), "--dry-run"], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=READY_S
        )
        assert does in planned.stdout


@pytest.mark.deep
def test_questions_of_the_readme_are_answered(make_settings, tmp_path):
    settings = make_settings(data_dir=tmp_path, clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}")
    calls = tmp_path / "calls.jsonl.gz"
    calls.write_text('{"tool_name": "mcp:stocks:get_quote", "status": "success", "execution_time_ms": 6000}\n')
    lines = [shlex.split(line, comments=True) for line in QUESTIONS.splitlines()]
    assert [line[0] for line in lines] == ["switchgear"] * len(lines)
    with switchgear("sink", log=tmp_path / "sink.log", settings=settings) as sink:
        sink.wait_until(lambda: run("circuits", settings=settings).returncode == 0)
        asked = sorted(lines, key=lambda line: line[1] != "emit")  # first the call, then the questions about it
        for line in asked:
            arguments = [str(calls) if word == "calls.jsonl.gz" else word for word in line[1:]]
            if line[1] == "watch":
                arguments.append("--once")
            done = run(*arguments, settings=settings)
            if line[1] == "doctor":  # only a sink runs here, so the check of the worker fails
                assert (done.returncode, done.stderr) == (1, "")
                assert [each.split()[1] for each in done.stdout.splitlines() if each.startswith("fail")] == ["workers"]
                continue
            assert done.returncode == 0, done.stderr
            if line[1] == "emit":
                sink.wait_until(lambda: "1" in run("sql", "SELECT count() FROM tool_metrics", settings=settings).stdout)
            elif line[1] in {"tools", "tool", "slow", "sql"}:
                assert "mcp:stocks:get_quote" in done.stdout


def test_operator_commands_of_the_readme_open_a_circuit_and_hand_it_back(settings, tmp_path):
    lines = [shlex.split(line, comments=True) for line in STEPS.splitlines()]
    assert [line[:2] for line in lines] == [["switchgear", "open"], ["switchgear", "auto"]]
    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"tool_name": "mcp:stocks:get_quote", "status": "success"}\n')
    assert run("emit", str(calls), settings=settings).returncode == 0  # as the guard example has by now
    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        worker.wait_for_output("ready")
        worker.wait_until(lambda: "mcp:stocks:get_quote" in asyncio.run(read_rows(settings)), "known")
        for line, state in zip(lines, ("open", "closed"), strict=True):
            done = run(*line[1:], "--json", settings=settings)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["circuit"]["state"] == state


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_of_the_readme_and_the_guide_sends_executions_to_a_gateway(make_settings, tmp_path):
    guide, decide = [
        each for each in snippets("docs/guide/gateway.md", "sh") if each.startswith("curl") and "uvx" not in each
    ]
    settings = make_settings(gateway_http="127.0.0.1:0")
    with running_gateway(settings, tmp_path / "gateway.log") as gateway:

        def answer(command: str) -> str:
            addressed_there = command.replace("http://127.0.0.1:8622", gateway.url)
            assert addressed_there != command
            done = subprocess.run(
                ["sh", "-c", addressed_there], capture_output=True, text=True, timeout=READY_S, check=True
            )
            return done.stdout

        for command in (CURL, guide):
            assert [answer(command) + "\n"] == snippets("docs/guide/gateway.md", "output")
        assert json.loads(answer(decide))["allowed"] is True
    stored = asyncio.run(read_topic(settings.kafka_bootstrap_servers, settings.topics.executions))
    assert [json.loads(record.value)["status"] for record in stored] == ["success", "error"] * 2


async def test_command_of_the_readme_puts_servers_behind_the_proxy_which_passes_calls_on(tmp_path):
    _, command = SERVERS.splitlines()
    words = shlex.split(command, comments=True)
    assert words[:3] == ["switchgear", "mcp-proxy", "--wrap"]
    config = tmp_path / words[3]
    server = [sys.executable, raw_mcp_server.__file__]
    config.write_text(json.dumps({"mcpServers": {"raw": {"command": server[0], "args": server[1:]}}}))
    done = run("mcp-proxy", "--wrap", str(config))
    assert done.returncode == 0, done.stderr
    wrapped = json.loads(config.read_text())["mcpServers"]["raw"]
    assert wrapped["args"][-3:] == ["--", *server]
    started = StdioServerParameters(command=wrapped["command"], args=wrapped["args"], env=environment())
    async with Client(started) as client:
        (said,) = (await client.call_tool("echo", {"text": "née"})).content
    assert said.text == "née"


async def test_line_of_the_readme_starts_a_server_that_an_agent_can_ask():
    words = shlex.split(ASK, comments=True)
    assert words[:5] == ["claude", "mcp", "add", "switchgear", "--"]
    assert words[5] == "switchgear"
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "switchgear_cli", *words[6:]], env=environment()
    )
    async with Client(started) as client:
        assert "tools_down" in [each.name for each in (await client.list_tools()).tools]
