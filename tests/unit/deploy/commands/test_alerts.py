"""`switchgear alerts check` and `test`."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from switchgear_cli.main import run
from tests.support.http_server import served

SLACK = '[receivers.slack]\ntype = "slack"\nurl = "env:SLACK_URL"\n\n[[routes]]\nreceivers = ["slack"]\nfor = "2m"\nseverity = "critical"\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "alerts.toml"
    path.write_text(SLACK)
    return path


@pytest.fixture
def answering(monkeypatch):
    """A channel that answers every request with a status, and keeps the bodies."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            server.bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(server.status)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.status, server.bodies = 200, []
    with served(server) as url:
        monkeypatch.setenv("SLACK_URL", f"{url}/services/secret")
        yield server


@pytest.mark.slow
def test_check_prints_the_receivers_and_routes(file, answering, capsys):
    assert run(["alerts", "check", str(file)]) == 0
    printed = capsys.readouterr().out
    assert f"{file}: valid.\nreceiver slack: slack.\n" in printed
    assert "route 1: tools *; open or forced_open; severity critical; after 2 min → slack\n" in printed
    assert answering.bodies == []


def test_check_says_which_receiver_lacks_its_secret_here_and_is_content(file, capsys, monkeypatch):
    monkeypatch.delenv("SLACK_URL", raising=False)
    assert run(["alerts", "check", str(file)]) == 0
    assert (
        "receiver slack: slack. It can't run here: [receivers.slack]: The variable SLACK_URL is not set"
        in capsys.readouterr().out
    )


def test_check_of_a_wrong_file_fails_with_the_table_and_the_key(file, capsys):
    file.write_text(SLACK.replace("critical", "high"))
    assert run(["alerts", "check", str(file)]) == 1
    assert (
        "[[routes]] number 1, key severity: must be 'critical', 'error', 'warning' or 'info'" in capsys.readouterr().err
    )


@pytest.mark.slow
def test_test_sends_an_example_and_prints_the_answers(file, answering, capsys):
    assert run(["alerts", "test", "slack", "--file", str(file)]) == 0
    assert capsys.readouterr().out == "opened: HTTP 200 ok\nresolved: HTTP 200 ok\n"
    assert ["Circuit open" in body for body in answering.bodies] == [True, False]


@pytest.mark.slow
def test_test_reports_a_refusal_without_the_secret_url(file, answering, capsys):
    answering.status = 403
    assert run(["alerts", "test", "slack", "--file", str(file)]) == 1
    said = capsys.readouterr().err
    assert "slack did not take the example (opened): HTTP 403: ok." in said
    assert "secret" not in said


def test_test_of_an_unknown_receiver_is_wrong_usage(file, capsys):
    assert run(["alerts", "test", "slak", "--file", str(file)]) == 2
    assert "The file has no receiver 'slak'. It has slack." in capsys.readouterr().err


def test_without_a_file_the_error_says_how_to_name_one(capsys):
    assert run(["alerts", "check"]) == 1
    assert "No alerts file is named. Give one by --file, or set SWITCHGEAR_ALERTS_FILE." in capsys.readouterr().err
