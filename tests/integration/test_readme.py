"""The README's Python runs as it stands; only the broker's address and the topics' prefix are the test's own."""

import time

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.support.processes import all_ended, python, switchgear
from tests.support.snippets import snippets

pytestmark = pytest.mark.integration
GUARD, SUBSCRIBE = snippets("README.md", "python")


def addressed(snippet, settings):
    """The snippet against the test's own broker and topics; what is replaced must be there."""
    code = snippet.replace('"localhost:9092"', f'"{settings.kafka_bootstrap_servers}"')
    assert code != snippet
    code = code.replace('service="planner"', f'service="planner", topic_prefix="{settings.topic_prefix}"')
    return code.replace('"switchgear.circuits"', f'"{settings.topics.circuits}"')


def test_the_guard_example_opens_after_five_failures_and_then_refuses(settings, tmp_path):
    with python(addressed(GUARD, settings), log=tmp_path / "guard.log") as guard:
        assert guard.wait_for_exit(60) == 0, guard.output()
    lines = guard.output().splitlines()
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
    alerts = python(addressed(SUBSCRIBE, settings), log=tmp_path / "alerts.log")
    with all_ended(worker, alerts):
        worker.wait_for_output("ready")
        time.sleep(2)  # the subscriber reads from the end: let it join
        guards = [  # the fleet's circuit wants evidence of two processes
            python(addressed(GUARD, settings), log=tmp_path / f"guard{number}.log") for number in (1, 2)
        ]
        with all_ended(*guards):
            assert [guard.wait_for_exit(60) for guard in guards] == [0, 0]
        alerts.wait_for_output("mcp:weather:get_forecast is open: cusum", timeout_s=30)
