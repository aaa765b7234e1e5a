"""The doctor says why no call was stored."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from switchgear_cli.doctor.events import events_finding, gateway_of, why_no_rows
from switchgear_schemas.settings import Settings
from tests.support.http_server import served
from tests.support.table import table

UNMATCHED = {"scope": "my.lib", "spans": 12, "example": "run_tool search"}
REFUSED = {"why": "the tool has no name", "calls": 1}


@table(
    ("sources", "seen", "todo"),
    [
        (
            {"records": 40, "calls": 0, "unmatched": [UNMATCHED], "refused": [REFUSED]},
            (
                "12 spans of the library my.lib look like tool calls (such as “run_tool search”), "
                "and no convention that is read covers them. The gateway refused 1 call: the tool has no name."
            ),
            "gen_ai.operation.name = execute_tool",
        ),
        (
            {"records": 1, "unmatched": [{"scope": "", "spans": 1, "example": ""}], "refused": []},
            "1 span of the library without a name look like tool calls, and",
            "gen_ai.tool.name",
        ),
        ({"records": 0, "calls": 0, "unmatched": [], "refused": []}, "No span or log record reached", "exporter"),
        ({"records": 1, "calls": 0}, "got 1 span or log record, none of a tool call", "Instrument"),
        ({"records": 9, "calls": 5}, "has sent 5 calls to Kafka", "the sink"),
        ({"unmatched": "?", "refused": [7, None]}, "No span or log record reached", "exporter"),
    ],
)
def test_the_reasons_of_the_gateway_say_why_there_are_no_rows(sources, seen, todo):
    finding = why_no_rows("http://gateway", sources)
    assert finding.status == "warn"
    assert finding.seen.startswith("No call was stored in the last hour. ")
    assert seen in finding.seen
    assert todo in finding.todo


def test_many_reasons_are_cut():
    many = [UNMATCHED | {"scope": f"lib{number}"} for number in range(50)]
    finding = why_no_rows("http://gateway", {"unmatched": many, "refused": [REFUSED] * 20})
    assert (finding.seen.count("look like"), finding.seen.count("refused")) == (3, 3)


@contextmanager
def answering(answers):
    """A server with an answer for each path; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path.partition("?")[0])
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(body or {}).encode())

        def log_message(self, *_):
            """Quiet."""

    with served(HTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@pytest.mark.slow
def test_the_gateway_is_asked_only_if_no_tool_had_a_call():
    called = {"tool_name": "search", "total_calls": 3}
    idle = {"tool_name": "fetch", "total_calls": 0}
    with answering({"/v1/tools": {"tool_reports": [called, idle]}}) as url:
        finding = events_finding(Settings(api_url=url), "http://127.0.0.1:1", 5)
    assert (finding.status, finding.seen) == ("ok", "Calls of 1 tool were stored in the last hour.")
    sources = {"records": 1, "calls": 0, "unmatched": [UNMATCHED], "refused": []}
    with answering({"/v1/tools": {"tool_reports": [idle]}, "/v1/sources": sources}) as url:
        finding = events_finding(Settings(api_url=url), url, 5)
    assert "look like tool calls" in finding.seen


@pytest.mark.slow
def test_a_gateway_that_does_not_answer_or_is_not_known_is_said():
    with answering({"/v1/tools": {"tool_reports": []}}) as url:
        away = events_finding(Settings(api_url=url), "http://127.0.0.1:1", 5)
        older = events_finding(Settings(api_url=url), url, 5)
        unknown = events_finding(Settings(api_url=url), "", 5)
    assert {away.status, older.status, unknown.status} == {"warn"}
    assert "The gateway at http://127.0.0.1:1 does not say why" in away.seen
    assert "does not say why" in older.seen
    assert "SWITCHGEAR_GATEWAY_URL" in unknown.todo


def test_the_gateway_of_the_settings_goes_before_that_of_the_running_up():
    up = SimpleNamespace(gateway_url="http://127.0.0.1:8622")
    assert gateway_of(SimpleNamespace(settings=Settings(gateway_url="https://gw:1"), up=up)) == "https://gw:1"
    assert gateway_of(SimpleNamespace(settings=Settings(), up=up)) == "http://127.0.0.1:8622"
    assert gateway_of(SimpleNamespace(settings=Settings(), up=None)) == ""
