"""The fleet's circuits in the hook: read from the HTTP API, kept for a few seconds."""

from __future__ import annotations

import http.server
import json
import socket
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.hook import fleet as module
from switchgear_cli.hook.fleet import KEPT_S, OLDEST_S, RETRY_S
from switchgear_schemas.circuit import Circuit
from tests.support.http_server import served
from tests.support.limits import ANSWER_S

TOOL = "mcp__weather__get_forecast"
NAME = "mcp:weather:get_forecast"


class Api(http.server.ThreadingHTTPServer):
    """Answers with records in the contract's form, as the API does."""

    def __init__(self):
        self.records, self.asked = [], 0
        """Records, or what is no answer of the API."""
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        assert self.path == "/v1/circuits"
        records = self.server.records
        circuits = records if isinstance(records, str) else {each["circuit_id"]: each for each in records}
        body = json.dumps({"circuits": circuits, "local_circuits": []}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Not to standard error."""


@pytest.fixture
def api(monkeypatch):
    server = Api()
    with served(server) as url:
        monkeypatch.setenv("SWITCHGEAR_API_URL", f"{url}/")
        monkeypatch.setattr(module, "LIMIT_S", ANSWER_S)
        yield server


@pytest.fixture
def record(session):
    """Return a record of the fleet's circuit. Its wait ends ``wait_s`` seconds from now."""

    def made(state, wait_s=None, **fields):
        now = datetime.fromtimestamp(session.now, UTC)
        until = None if wait_s is None else now + timedelta(seconds=wait_s)
        given = {"circuit_id": NAME, "tool_name": NAME, "version": 3, "generation": 1} | fields
        return Circuit(**given, state=state, changed_at=now, open_until=until).to_dict()

    return made


def test_a_call_is_refused_while_the_fleets_circuit_is_open(session, api, record):
    api.records = [record("open", 30, last_error="HTTP 503", fallback=("mcp:backup:get_forecast",))]
    reason = session.before()
    assert reason == (
        f"The tool {TOOL} is unavailable (circuit open). Its last error was an HTTP 503. "
        "Do not call it again within the next 30 s. Use mcp__backup__get_forecast instead."
    )
    session.now += 31
    assert session.before() is None


def test_a_call_is_refused_while_the_fleets_circuit_of_its_server_is_open(session, api, record):
    family = {"circuit_id": "mcp:weather|family", "tool_name": "mcp:weather", "scope": "family"}
    api.records = [record("open", 30, **family)]
    assert "its server mcp:weather does not answer" in session.before()


def test_a_tool_that_an_operator_switched_off_is_refused_without_an_end(session, api, record):
    api.records = [record("forced_open")]
    assert session.before().endswith("Do not call it again now.")


@pytest.mark.parametrize("commanded", ["disabled", "metrics_only"])
def test_an_operator_overrules_the_circuit_of_this_machine(session, api, record, commanded):
    session.outage()
    session.now += KEPT_S
    api.records = [record(commanded)]
    assert session.before() is None


def test_closed_circuits_and_those_of_users_and_sessions_are_not_kept(session, state, api, record):
    api.records = [record("closed"), record("open", 30, circuit_id=f"{NAME}|user=ana", scope="user")]
    assert session.before() is None
    assert state.fleet() == {}


def test_the_api_is_asked_once_for_the_calls_of_a_few_seconds(session, another, api):
    session.call()
    another.call()
    assert api.asked == 1
    session.now += KEPT_S
    session.call()
    assert api.asked == 2


def test_the_context_names_the_tools_that_the_fleet_refuses(session, api, record):
    api.records = [record("open", 30)]
    context = session.send("UserPromptSubmit", prompt="x")["hookSpecificOutput"]["additionalContext"]
    assert context.startswith(f"[tool status] These tools are unavailable: {TOOL}. ")


@pytest.mark.slow
def test_an_api_that_does_not_answer_is_waited_for_once_and_the_last_circuits_hold_for_a_minute(
    session, api, record, monkeypatch
):
    api.records = [record("forced_open")]
    assert session.before() is not None
    monkeypatch.setattr(module, "LIMIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SWITCHGEAR_API_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        session.now += KEPT_S
        for _ in range(3):
            assert session.before() is not None
        silent.settimeout(ANSWER_S)
        silent.accept()[0].close()
        silent.settimeout(0.05)
        with pytest.raises(TimeoutError):
            silent.accept()
        session.now += max(OLDEST_S, RETRY_S)
        assert session.before() is None


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "not an address", "http://127.0.0.1:notaport", "http://127.0.0.1:1"]
)
def test_an_address_that_is_wrong_leaves_the_decision_to_this_machine(session, monkeypatch, url):
    monkeypatch.setenv("SWITCHGEAR_API_URL", url)
    session.outage()
    assert "circuit open" in session.before()


def test_an_answer_that_is_not_the_apis_is_ignored(session, api):
    api.records = "no list"
    assert session.before() is None


SPLIT = {"target": "url.host"}
OF_DEAD = {"circuit_id": f"{NAME}@dead.org", "scope": "target"} | SPLIT
DEAD, GOOD = {"url": "https://dead.org/x"}, {"url": "https://good.org/y"}


def test_one_dead_site_of_the_fleet_is_refused_and_the_tool_stays(session, api, record):
    api.records = [record("closed", **SPLIT), record("open", 30, **OF_DEAD)]
    assert session.before(arguments=DEAD).startswith(f"The tool {TOOL} is unavailable for dead.org (circuit open).")
    assert session.before(arguments=GOOD) is None
    assert session.before(arguments={"url": 5}) is None
    session.now += 31
    assert session.before(arguments=DEAD) is None


def test_the_machine_splits_as_the_fleet_does(session, api, record):
    api.records = [record("closed", **SPLIT)]
    for _ in range(5):
        assert session.call(error="connect ECONNREFUSED 10.0.0.1:80", arguments=DEAD) is None
    assert "unavailable for dead.org" in session.before(arguments=DEAD)
    assert session.before(arguments=GOOD) is None


def test_of_the_tools_own_circuit_only_commands_hold_for_its_targets(session, api, record):
    api.records = [record("open", 30, **SPLIT)]
    assert session.before(arguments=GOOD) is None
    assert session.before(arguments={"url": ""}) is not None
    session.now += KEPT_S
    api.records = [record("forced_open", **SPLIT)]
    assert session.before(arguments=GOOD) is not None


def test_the_event_for_the_fleet_names_the_target_and_what_failed(session, state, api, record, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
    api.records = [record("closed", **SPLIT)]
    session.call(error="503 Service Unavailable", arguments=DEAD)
    ((_, posted),) = state.posted(1)
    event = json.loads(posted)
    assert (event["target"], event["error_class"], event["error_type"]) == ("dead.org", "server", "TargetError")
