"""What the README and docs/events.md show runs as it stands; only addresses and the topics' prefix are the test's own."""

import json
import shlex
import subprocess

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.support.processes import all_ended, python, run, switchgear
from tests.support.recount import read_topic
from tests.support.snippets import REPOSITORY, snippets

pytestmark = pytest.mark.integration
GUARD, SUBSCRIBE = snippets("README.md", "python")
COMMANDS, QUESTIONS, STEPS = snippets("README.md", "sh")
(EMIT,) = snippets("docs/events.md", "python")


def addressed(snippet, settings):
    """The snippet against the test's own broker and topics; what is replaced must be there."""
    code = snippet.replace('"localhost:9092"', f'"{settings.kafka_bootstrap_servers}"')
    assert code != snippet
    code = code.replace('service="planner"', f'service="planner", topic_prefix="{settings.topic_prefix}"')
    return code.replace('"switchgear.circuits"', f'"{settings.topics.circuits}"')


def telling_when_it_reads(subscriber):
    """The subscriber reads from the end: what is told before it knows where that is, it misses."""
    before = "        async for record in consumer:\n"
    assert subscriber.count(before) == 1
    told = (
        "        for partition in consumer.assignment():\n"
        "            await consumer.position(partition)\n"
        "        print('it reads from here', flush=True)\n"
    )
    return subscriber.replace(before, told + before)


def test_the_guard_example_opens_after_five_failures_and_then_refuses(settings, tmp_path):
    with python(addressed(GUARD, settings), log=tmp_path / "guard.log") as guard:
        assert guard.wait_for_exit(60) == 0, guard.output()
    lines = [line for line in guard.output().splitlines() if line.startswith("attempt ")]
    assert len(lines) == 8
    assert all("no forecast for Oslo" in line for line in lines[:5])
    assert all("refused, try again in" in line for line in lines[5:])


def test_the_guard_example_is_the_same_without_kafka(tmp_path):
    nobody = f'"127.0.0.1:{any_free_port()}"'
    with python(GUARD.replace('"localhost:9092"', nobody), log=tmp_path / "guard.log") as guard:
        assert guard.wait_for_exit(60) == 0, guard.output()
    assert guard.output().count("refused, try again in") == 3


def test_the_subscriber_is_told_when_two_guards_open_the_fleets_circuit(make_settings, tmp_path):
    settings = make_settings(worker_http=f"127.0.0.1:{any_free_port()}")
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
    alerts = python(telling_when_it_reads(addressed(SUBSCRIBE, settings)), log=tmp_path / "alerts.log")
    with all_ended(worker, alerts):
        worker.wait_for_output("ready")
        alerts.wait_for_output("it reads from here")
        guards = [  # the fleet's circuit wants evidence of two processes
            python(addressed(GUARD, settings), log=tmp_path / f"guard{number}.log") for number in (1, 2)
        ]
        with all_ended(*guards):
            assert [guard.wait_for_exit(60) for guard in guards] == [0, 0]
        alerts.wait_for_output("mcp:weather:get_forecast is open: cusum", timeout_s=30)


async def test_the_emitter_example_sends_its_event(settings, tmp_path):
    code = addressed(EMIT, settings).replace(
        'service="billing"', f'service="billing", topic_prefix="{settings.topic_prefix}"'
    )
    with python(code, log=tmp_path / "emit.log") as emitter:
        assert emitter.wait_for_exit(60) == 0, emitter.output()
    (record,) = await read_topic(settings.kafka_bootstrap_servers, settings.topics.executions)
    event = json.loads(record.value)
    assert (event["tool_name"], event["status"], event["service"]) == ("stripe:charge", "timeout", "billing")


def test_the_two_commands_are_those_of_the_makefile():
    shown = [line.split("#")[0].strip() for line in COMMANDS.splitlines()]
    assert shown == ["make up", "make test"]
    for command, does in (("make up", "switchgear up --demo"), ("make test", "-m pytest")):
        planned = subprocess.run(
            [*command.split(), "--dry-run"], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
        )
        assert does in planned.stdout


def test_the_questions_are_answered(make_settings, tmp_path):
    settings = make_settings(data_dir=tmp_path, clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}")
    calls = tmp_path / "calls.jsonl.gz"
    calls.write_text('{"tool_name": "mcp:weather:get_forecast", "status": "success", "execution_time_ms": 6000}\n')
    lines = [shlex.split(line, comments=True) for line in QUESTIONS.splitlines()]
    assert [line[0] for line in lines] == ["switchgear"] * 7
    with switchgear("sink", log=tmp_path / "sink.log", settings=settings) as sink:
        sink.wait_until(lambda: run("circuits", settings=settings).returncode == 0)
        asked = sorted(lines, key=lambda line: line[1] != "emit")  # first the call, then the questions about it
        for line in asked:
            arguments = [str(calls) if word == "calls.jsonl.gz" else word for word in line[1:]]
            done = run(*arguments, settings=settings)
            assert done.returncode == 0, done.stderr
            if line[1] == "emit":
                sink.wait_until(lambda: "1" in run("sql", "SELECT count() FROM tool_metrics", settings=settings).stdout)
            elif line[1] in {"tools", "tool", "slow", "sql"}:
                assert "mcp:weather:get_forecast" in done.stdout


def test_an_operator_steps_in_and_out_again(settings, tmp_path):
    lines = [shlex.split(line, comments=True) for line in STEPS.splitlines()]
    assert [line[:2] for line in lines] == [["switchgear", "open"], ["switchgear", "auto"]]
    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        worker.wait_for_output("ready")
        for line, state in zip(lines, ("open", "closed"), strict=True):
            done = run(*line[1:], "--json", settings=settings)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["circuit"]["state"] == state
