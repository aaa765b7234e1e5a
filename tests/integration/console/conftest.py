"""One system for the tests of the console, with a token for an operator and one for a viewer."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.settings import load_settings
from tests.support.browser import NARROW, WIDE, Window, running_browser
from tests.support.limits import HAPPEN_S
from tests.support.up import Up


@dataclass(frozen=True)
class System:
    """A running system.

    Args:
        up: Its processes.
        operator: The token of an operator.
        viewer: The token of a viewer.
        weather: The token of a viewer of two tools.
    """

    up: Up
    operator: str
    viewer: str
    weather: str

    @property
    def url(self) -> str:
        return str(self.up.record()["api_url"])

    @property
    def bootstrap(self) -> str:
        return str(self.up.record()["kafka_bootstrap_servers"])

    def send(self, *values: dict[str, Any] | bytes) -> None:
        """Send executions, or bytes as they are, and wait for the broker."""
        with ThreadPoolExecutor(1) as thread:  # Playwright's own loop runs in this one
            thread.submit(asyncio.run, self._send(values)).result(HAPPEN_S)

    async def _send(self, values: tuple[dict[str, Any] | bytes, ...]) -> None:
        topic = load_settings().topics.executions
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all") as producer:
            for value in values:
                if isinstance(value, bytes):
                    await producer.send(topic, value, key=b"search")
                else:
                    name = value["tool_name"]
                    key = ":".join(name.split(":")[:2]) if name.startswith("mcp:") else name
                    await producer.send(topic, json.dumps(value).encode(), key=key.encode())
            await producer.flush()


def calls(tool: str, count: int, status: str = "success", **fields: Any) -> list[dict[str, Any]]:
    """Return executions of a tool from two processes, as their guards send them."""
    failed = {"error_class": "server", "error_type": "HTTPError", "error_message": "502 Bad Gateway"}
    return [
        {
            "metric_id": str(uuid4()),
            "tool_name": tool,
            "status": status,
            "execution_time_ms": 40 + number % 20,
            "emitter_id": f"planner@node-{number % 2}/1",
            "service": "planner",
            "user_id": f"u{number % 7}",
            "session_id": f"s{number % 5}",
            "input_tokens": 400,
            "cost_usd": 0.004,
            **(failed if status == "error" else {}),
            **fields,
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    tokens, texts = "", []
    for name, roles, tools in (
        ("maria", [Role.READ, Role.OPERATE], ()),
        ("vera", [Role.READ], ()),
        ("wanda", [Role.READ], ["mcp:weather:*"]),
    ):
        token, text = new_token(name, roles, tools=tools)
        tokens, texts = with_token(tokens, token), [*texts, text]
    extra = {"SWITCHGEAR_ACCESS_TOKENS": tokens, "SWITCHGEAR_TOKEN": texts[0]}
    with Up(tmp_path_factory.mktemp("console") / "data", "--no-demo", extra=extra) as up:
        yield System(up, *texts)


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running


@pytest.fixture
def open_window(system, browser):
    """``open_window(theme, narrow=…)``: a browser window on the console. It fails if the browser's console has errors."""
    opened = []

    def open_one(theme: str = "light", *, narrow: bool = False, bypass_csp: bool = False) -> Window:
        opened.append(Window(browser, system.url, theme=theme, size=NARROW if narrow else WIDE, bypass_csp=bypass_csp))
        return opened[-1]

    yield open_one
    for window in opened:
        window.close()
