"""The doctor asks the workers of the system that it found, and no worker of another one."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from switchgear_cli.discovery import API, KAFKA, find_system
from switchgear_cli.doctor.checks import SkippedError
from switchgear_cli.doctor.servers import ServerChecks, Workers, emitters_finding, history_finding, workers_of
from switchgear_cli.up_record import LOCK_NAME, UpRecord
from switchgear_schemas.file_lock import FileLock
from switchgear_schemas.settings import Settings
from tests.support.http_server import served

DEFAULT = "http://127.0.0.1:8621"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """`start(name, …)`: a system runs that has recorded itself as `up` does."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    with ExitStack() as stack:

        def one(name, *, kafka, api, workers):
            folder = tmp_path / name
            stack.enter_context(FileLock(folder / LOCK_NAME))
            UpRecord.announce(folder)
            record = UpRecord(
                pid=1,
                data_dir=str(folder),
                kafka_bootstrap_servers=f"127.0.0.1:{kafka}",
                api_url=f"http://127.0.0.1:{api}",
                topic_prefix="switchgear.",
                started_at=float(kafka),
                worker_urls=tuple(f"http://127.0.0.1:{port}" for port in workers),
            )
            record.write(folder)
            return record

        yield one


def found(**named):
    return workers_of(find_system(use=(KAFKA, API), **named))


def test_the_workers_of_the_system_that_was_found_are_asked(start):
    start("one", kafka=9092, api=8620, workers=[8621])
    two = start("two", kafka=9102, api=8630, workers=[8631, 8641])
    assert found(api_url=two.api_url) == Workers(
        ("http://127.0.0.1:8631", "http://127.0.0.1:8641"), f"Look at its log in {two.data_dir}/logs."
    )


def test_workers_that_the_user_names_are_asked_instead(start):
    start("one", kafka=9092, api=8620, workers=[8621])
    named = ["http://worker-1:8621"]
    assert workers_of(find_system(), named) == Workers(named, "Start it, or correct --worker-url.")


def test_a_system_that_is_not_an_up_has_its_worker_where_the_settings_say(start, monkeypatch):
    assert found() == Workers([DEFAULT])
    monkeypatch.setenv("SWITCHGEAR_WORKER_HTTP", "0.0.0.0:9000")
    assert found() == Workers(["http://127.0.0.1:9000"])


def test_a_worker_of_an_up_is_not_taken_for_one_of_another_system(start):
    start("one", kafka=9092, api=8620, workers=[8621])
    other = {"kafka_bootstrap_servers": "kafka.example:9092", "api_url": "http://api.example"}
    assert found(**other) == Workers([])


@contextmanager
def answering(status, body):
    """A server that gives one answer to everything; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            """Quiet."""

    with served(HTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


async def look(workers):
    return await ServerChecks(Settings(), [], workers, 5).worker()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "expected", "seen"),
    [
        (200, {"status": "ready", "partitions": [0, 1]}, "ok", "Ready: "),
        (503, {"status": "recovering", "partitions": []}, "warn", "it is recovering"),
        (503, {"problem": "stuck", "partitions": []}, "fail", "stuck"),
        (200, {"status": "ready", "notice": "8 partitions", "partitions": [0]}, "warn", "8 partitions"),
        (200, {"status": "ready"}, "fail", "is not a worker"),
    ],
)
async def test_the_answer_of_a_worker_is_the_finding(status, body, expected, seen):
    with answering(status, body) as url:
        finding = await look(Workers([url]))
    assert finding.status == expected
    assert seen in finding.seen


@pytest.mark.slow
@pytest.mark.parametrize(("todo", "status"), [("Look at its log.", "fail"), ("", "skip")])
async def test_a_worker_that_does_not_answer_is_a_failure_unless_its_address_was_a_guess(todo, status):
    finding = await look(Workers(["http://127.0.0.1:1"], todo))
    assert (finding.status, finding.todo) == (status, todo)


async def test_the_check_is_skipped_where_no_worker_is_known():
    with pytest.raises(SkippedError, match="--worker-url"):
        await look(Workers([]))


LOCAL = {
    "emitter_id": "host:7:a", "counted": False, "todo": "Send recorded_at with a time zone.",
    "text": "its times have no time zone and are 5 h behind UTC, so no circuit counts its calls",
}  # fmt: skip
AHEAD = {
    "emitter_id": "", "counted": True, "todo": "Synchronise the clock of its machine.",
    "text": "its clock is 7 min ahead of the broker's, so its calls are stored with the broker's time",
}  # fmt: skip


def test_doctor_names_the_emitter_whose_clock_is_wrong():
    assert emitters_finding([]).status == "ok"
    ahead = emitters_finding([AHEAD])
    assert (ahead.status, ahead.todo) == ("warn", AHEAD["todo"])
    assert ahead.seen == f"A process without emitter_id: {AHEAD['text']}."
    both = emitters_finding([LOCAL, AHEAD, *[LOCAL] * 7])
    assert both.status == "fail", "no circuit counts its calls"
    assert both.seen.startswith(f"host:7:a: {LOCAL['text']}. A process")
    assert both.seen.endswith("And 4 more.")
    assert both.todo.splitlines() == [LOCAL["todo"], AHEAD["todo"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "seen"),
    [
        (200, {"emitters": [LOCAL], "hours": 24}, "host:7:a: its times have no time zone"),
        (200, {"emitters": []}, "No process has a wrong clock."),
    ],
)
async def test_the_clocks_of_processes_are_asked_of_the_api(status, body, seen):
    with answering(status, body) as url:
        finding = await ServerChecks(Settings(api_url=url), [], Workers([]), 5).emitters()
    assert finding.seen.startswith(seen)


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 404])
async def test_the_clocks_are_not_checked_where_the_api_is_older_or_the_token_may_not(status):
    with (
        answering(status, {"title": "No", "status": status, "detail": "No.", "error": "No."}) as url,
        pytest.raises(SkippedError),
    ):
        await ServerChecks(Settings(api_url=url), [], Workers([]), 5).emitters()


def test_a_store_that_lacks_nothing_is_fine():
    assert history_finding([]).status == "ok"


def test_a_store_that_lacks_what_sinks_have_read_is_a_failure_with_the_way_out():
    finding = history_finding([["t.executions", "240"]])
    assert finding.status == "fail"
    assert "240 of t.executions" in finding.seen
    assert "switchgear sink --rewind" in finding.todo
