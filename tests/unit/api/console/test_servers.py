"""What the page System says about other processes, asked over real connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from switchgear_api.console.servers import ask_servers
from switchgear_schemas.settings import Settings
from tests.support.http_server import served


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@pytest.mark.slow
async def test_system_page_says_of_each_named_server_whether_it_is_ready_and_why_not():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with (
        answering(200, json.dumps({"status": "ready", "checks": {"kafka": True}}).encode()) as gateway,
        answering(
            503, json.dumps({"status": "not ready", "checks": {"kafka": False, "circuits": True}}).encode()
        ) as away,
        answering(503, json.dumps({"status": "recovering", "reason": "it reads its tables"}).encode()) as worker,
        answering(503, json.dumps({"status": "not ready", "problem": "no circuits yet"}).encode()) as alerts,
        answering(200, b"<html>") as other,
    ):
        found = await ask_servers(
            Settings(console_servers=f"{gateway}/, {away},worker-1 = {worker}/,alerts={alerts},{other},{dead},")
        )
    assert found[:4] == [
        {"server": gateway, "address": gateway, "ready": True, "why": None},
        {"server": away, "address": away, "ready": False, "why": "kafka"},
        {"server": "worker-1", "address": worker, "ready": False, "why": "it reads its tables"},
        {"server": "alerts", "address": alerts, "ready": False, "why": "no circuits yet"},
    ]
    assert [(each["server"], each["ready"]) for each in found[4:]] == [(other, False), (dead, False)]
    assert found[4]["why"] == "It answers 200, but not as a part of Switchgear."
    assert found[5]["why"].startswith("It does not answer: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"status": "' + b"x" * 1_000_000 + b'"}', "It answers 503, but not as a part of Switchgear."),
        (b"[" * 60_000, "It answers 503, but not as a part of Switchgear."),
        (json.dumps({"status": "no", "reason": "<b>" + "y" * 900}).encode(), "<b>" + "y" * 197),
    ],
)
async def test_what_another_program_answers_is_read_up_to_a_bound_and_cut(body, why):
    with answering(503, body) as server:
        (found,) = await ask_servers(Settings(console_servers=f"worker-1={server}"))
    assert (found["ready"], found["why"]) == (False, why)


@pytest.mark.parametrize("servers", ["gateway:8622", "gateway=box:8622", "=http://box:8622"])
def test_address_of_a_server_without_a_scheme_or_with_an_empty_name_is_refused(servers):
    with pytest.raises(ValidationError, match="must start with http"):
        Settings(console_servers=servers)


def test_server_without_a_name_has_its_address_as_its_name():
    settings = Settings(console_servers="worker-1=http://a:1/,http://b:2/x?y=z")
    assert settings.servers == [("worker-1", "http://a:1"), ("http://b:2/x?y=z", "http://b:2/x?y=z")]
