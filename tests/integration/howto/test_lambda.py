"""docs/howto/lambda.md in a process that is stopped when the handler returns, and killed at the end."""

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

pytestmark = pytest.mark.deep

RUNTIME = """
import json, os, signal, sys
from handler import handler
for line in sys.stdin:
    answer = json.dumps(handler(json.loads(line), None))
    print(answer, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)  # as Lambda does: no thread runs any more
"""


class Frozen:
    """A process of the function, frozen between invocations."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def invoke(self, city: str) -> dict[str, object]:
        """Run one invocation. The process is frozen when this returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        print(json.dumps({"city": city}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        return dict(answer)


@pytest.fixture
def instance(settings, tmp_path):
    """Return an instance of the page's function, which is killed at the end."""
    written("docs/howto/lambda.md", tmp_path)
    variables = environment(settings, {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": by_host_name(settings)})
    with subprocess.Popen(
        [sys.executable, "-c", RUNTIME], cwd=tmp_path, env=variables, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield Frozen(process)
        process.kill()


def test_event_of_each_lambda_invocation_is_in_kafka_while_the_process_is_frozen(instance, settings):
    for number in range(1, 4):
        assert instance.invoke("Oslo") == {"statusCode": 200, "body": "sunny in Oslo"}
        assert statuses(settings) == {"success": number}
    instance.process.kill()
    assert {event["tool_name"] for event in events(settings)} == {TOOL}


def test_first_lambda_invocation_knows_the_circuits_that_were_open_before(instance, settings):
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    answer = instance.invoke("Oslo")
    assert answer["statusCode"] == 503
    assert int(answer["headers"]["Retry-After"]) <= 50
    assert answer["body"] == f"{TOOL} is unavailable"
    assert statuses(settings) == {"rejected": 1}


def test_lambda_process_that_was_frozen_while_the_circuit_opened_refuses_within_a_few_invocations(instance, settings):
    assert instance.invoke("Oslo")["statusCode"] == 200
    asyncio.run(publish(settings, circuit(TOOL, "open", 1, until=50)))
    assert 503 in [instance.invoke("Oslo")["statusCode"] for _ in range(20)]
