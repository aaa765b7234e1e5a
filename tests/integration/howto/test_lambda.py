"""docs/howto/lambda.md in a process that is stopped as soon as the handler returned, and killed in the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.integration.howto.pages import TOOL, by_host_name, events, statuses
from tests.integration.producers.circuits import circuit, publish
from tests.support.processes import environment
from tests.support.snippets import written

pytestmark = pytest.mark.integration
RUNTIME = """
import json, os, signal, sys
from handler import handler
for line in sys.stdin:
    answer = json.dumps(handler(json.loads(line), None))
    print(answer, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)  # as the platform: nothing runs any more, in no thread
"""


class Frozen:
    """A process of the function: frozen but for the time of an invocation."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def invoke(self, city: str) -> dict[str, object]:
        """Let it run for one invocation; it is frozen when this returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        print(json.dumps({"city": city}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        return dict(answer)


@pytest.fixture
def instance(settings, tmp_path):
    """One instance of the page's function; killed at the end."""
    written("docs/howto/lambda.md", tmp_path)
    variables = environment(settings, {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": by_host_name(settings)})
    with subprocess.Popen(
        [sys.executable, "-c", RUNTIME], cwd=tmp_path, env=variables, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield Frozen(process)
        process.kill()


def test_the_event_of_each_invocation_is_in_kafka_while_the_process_is_frozen(instance, settings):
    for number in range(1, 4):
        assert instance.invoke("Oslo") == {"statusCode": 200, "body": "sunny in Oslo"}
        assert statuses(settings) == {"success": number}
    instance.process.kill()
    assert {event["tool_name"] for event in events(settings)} == {TOOL}


def test_the_first_invocation_knows_what_the_fleet_decided_before(instance, settings):
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    answer = instance.invoke("Oslo")
    assert answer["statusCode"] == 503
    assert int(answer["headers"]["Retry-After"]) <= 50
    assert answer["body"] == f"{TOOL} is unavailable"
    assert statuses(settings) == {"rejected": 1}


def test_a_process_that_was_frozen_while_the_fleet_opened_the_circuit_refuses_within_a_few_invocations(
    instance, settings
):
    assert instance.invoke("Oslo")["statusCode"] == 200
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    assert 503 in [instance.invoke("Oslo")["statusCode"] for _ in range(20)]
