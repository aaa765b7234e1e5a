"""The HTTP client: whoever answers or does not, one sentence says it."""

import http.server
import json
import socket

import pytest

from switchgear_cli.reads.client import ApiAnswerError, ApiClient, ApiUnavailableError, connect
from tests.support.http_server import served

pytestmark = pytest.mark.slow


@pytest.fixture
def server():
    """A server that answers what a test sets, and remembers what it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("content-length") or 0)
            self.server.asked.append((self.command, self.path, self.rfile.read(length)))
            status, body = self.server.answer
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - as the base class names them

        def log_message(self, *args):
            """Not to standard error."""

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.asked, httpd.answer = [], (200, b'{"circuits": {}, "history": []}')
    with served(httpd):
        yield httpd


@pytest.fixture
def api(server):
    with ApiClient(f"http://127.0.0.1:{server.server_port}/") as client:
        yield client


def test_the_parameters_of_a_read_are_in_the_address(server, api):
    api.tools(2)
    api.tool("mcp:a/b c", 1)
    api.circuits()
    api.circuit_history()
    api.circuit_history("a|user=x/y", 5)
    api.slow(100, 3, "t&u", None)
    api.errors(None, 7)
    api.sql("SELECT 1")
    assert [path for _, path, _ in server.asked] == [
        "/v1/tools?hours=2",
        "/v1/tools/mcp%3Aa%2Fb%20c?hours=1",
        "/v1/circuits",
        "/v1/circuits?history=1",
        "/v1/circuits/a%7Cuser%3Dx%2Fy/history?limit=5",
        "/v1/slow?threshold_ms=100&limit=3&tool=t%26u",
        "/v1/errors?limit=7",
        "/v1/sql",
    ]
    assert server.asked[-1][0] == "POST"
    assert json.loads(server.asked[-1][2]) == {"query": "SELECT 1"}


def test_a_change_of_the_retention_is_a_put_and_its_taking_back_a_delete(server, api):
    api.retention()
    api.set_retention(7, "a&b", new_rows_only=True)
    api.set_retention(9)
    api.reset_retention("")
    api.reset_retention(new_rows_only=True)
    assert [(method, path) for method, path, _ in server.asked] == [
        ("GET", "/v1/retention"),
        ("PUT", "/v1/retention"),
        ("PUT", "/v1/retention"),
        ("DELETE", "/v1/retention?tenant=&new_rows_only=0"),
        ("DELETE", "/v1/retention?new_rows_only=1"),
    ]
    assert json.loads(server.asked[1][2]) == {"days": 7, "tenant": "a&b", "new_rows_only": True}
    assert json.loads(server.asked[2][2]) == {"days": 9, "tenant": None, "new_rows_only": False}


def test_an_error_of_the_api_is_shown_with_its_message(server, api):
    server.answer = (400, b'{"error": "hours must be positive.", "hint": "Try 1."}')
    with pytest.raises(ApiAnswerError) as caught:
        api.tools(-1)
    assert str(caught.value) == "hours must be positive. Try 1."


@pytest.mark.parametrize(
    "answer", [(200, b"<html>"), (200, b"[1]"), (404, b"{}"), (502, b"Bad gateway"), (200, b"\xff")]
)
def test_an_answer_of_another_program_is_recognised(server, api, answer):
    server.answer = answer
    with pytest.raises(ApiUnavailableError, match="not the Switchgear API"):
        api.tools()


@pytest.mark.parametrize("read", [ApiClient.circuits, ApiClient.circuit_history, ApiClient.readiness])
def test_an_object_of_another_program_is_recognised(server, api, read):
    server.answer = (200, b'{"hello": 1}')
    with pytest.raises(ApiUnavailableError, match="not the Switchgear API"):
        read(api)


def test_an_address_without_a_server_is_one_sentence_with_what_to_do():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ApiClient(f"http://127.0.0.1:{port}") as api, pytest.raises(ApiUnavailableError) as caught:
        api.tools()
    assert f"127.0.0.1:{port} cannot be reached" in str(caught.value)
    assert "switchgear up" in caught.value.hint


@pytest.mark.parametrize("url", ["localhost:8620", "ftp://x", "http://[", "not a url"])
def test_an_invalid_address_is_an_error(url):
    with pytest.raises(ApiUnavailableError), ApiClient(url) as api:
        api.tools()


def test_a_proxy_of_the_environment_is_not_asked(server, api, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ApiClient(f"http://127.0.0.1:{server.server_port}") as client:
        assert client.circuits()["circuits"] == []


@pytest.mark.slow
def test_the_option_for_the_api_wins_over_the_setting(server, monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://127.0.0.1:9")
    with connect(f"http://127.0.0.1:{server.server_port}") as api:
        assert api.circuits()["circuits"] == []
    with connect() as api, pytest.raises(ApiUnavailableError, match=r"127\.0\.0\.1:9"):
        api.circuits()


def test_requests_of_one_client_share_its_time_and_the_first_may_take_most_of_it(monkeypatch):
    limits = []
    monkeypatch.setattr("httpx.Client.request", lambda *_, timeout, **__: limits.append(timeout.read))
    moments = iter([100.0, 100.5, 107.0, 111.0])
    monkeypatch.setattr("switchgear_cli.reads.client.time.monotonic", lambda: next(moments))
    with ApiClient("http://127.0.0.1:1", total_s=10.0) as api:
        for _ in range(3):
            api._request("GET", "/v1/tools")
    assert limits == [9.5, 3.0, 0.001]
