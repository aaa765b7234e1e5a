"""A worker that can't work says why in a sentence and ends; it never looks alive."""

from __future__ import annotations

import signal
import socket
import time

from tests.support.limits import READY_S
from tests.support.processes import run
from tests.support.stream import get


def test_a_worker_without_a_broker_exits_with_a_message(kafka):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    found = run("worker", settings=kafka.settings(kafka_bootstrap_servers=address), timeout_s=READY_S)
    assert found.returncode == 1
    assert address in found.stderr
    assert "switchgear up" in found.stderr
    assert "Traceback" not in found.stderr
    assert time.monotonic() - started < 30


def test_a_worker_without_topics_exits_with_a_message(kafka):
    settings = kafka.settings()
    found = run("worker", settings=settings)
    assert found.returncode == 1
    assert settings.topics.executions in found.stderr
    assert "switchgear topics ensure" in found.stderr


def test_a_worker_refuses_topics_with_another_number_of_partitions(settings):
    found = run("worker", settings=settings, extra={"SWITCHGEAR_TOPIC_PARTITIONS": "3"})
    assert found.returncode == 1
    assert "has 4 partitions" in found.stderr


def test_a_worker_refuses_a_port_in_use(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("worker", "--http", f"127.0.0.1:{port}", settings=settings)
    assert found.returncode == 1
    assert "SWITCHGEAR_WORKER_HTTP" in found.stderr


def test_a_worker_refuses_a_wrong_policy_file(settings, tmp_path):
    found = run("worker", "--policy-file", str(tmp_path / "none.toml"), settings=settings)
    assert found.returncode == 1
    assert "none.toml" in found.stderr


def test_a_worker_that_was_paused_past_its_session_ends(make_settings, start_worker):
    worker = start_worker(make_settings(worker_session_timeout_s=6))
    assert get(worker, "/readyz")[0] == 200
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(7)
    worker.process.send_signal(signal.SIGCONT)
    assert worker.wait_for_exit(15) == 70  # own limit: it ends by itself
    assert "another owner" in worker.output()
