"""Gateways' routes for permits in an application of their own, with access control, and a client of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import httpx
from aiokafka import AIOKafkaProducer

from switchgear import Switchgear
from switchgear_gateway.decide import DecideRoutes
from switchgear_gateway.hooks import HookRoutes
from switchgear_gateway.otlp.submission import Submit, SubmitResult
from switchgear_gateway.shared import Shared
from switchgear_http.application import create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.middleware import AccessControl
from switchgear_http.routing import Routes
from switchgear_http.token_source import FixedTokens
from switchgear_http.tokens import Token, with_token
from switchgear_schemas import ToolExecution
from switchgear_schemas.families import partition_key
from switchgear_schemas.headers import RESENT
from switchgear_schemas.settings import Settings
from switchgear_schemas.topics import TopicNames

KEY: Final = b"a key that all gateways share"


class KafkaSubmit:
    """Sends executions with a producer, and waits for Kafka. ``async with`` connects it."""

    def __init__(self, settings: Settings) -> None:
        self._producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", linger_ms=0)
        self._topic = TopicNames(prefix=settings.topic_prefix).executions

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def __call__(self, executions: Sequence[ToolExecution], *, resent: bool) -> SubmitResult:
        headers = [(RESENT, b"1")] if resent else []
        for each in executions:
            key, value = partition_key(each.tool_name).encode(), each.model_dump_json().encode()
            await self._producer.send_and_wait(self._topic, value, key=key, headers=headers)
        return SubmitResult()


def gateway(
    gear: Switchgear,
    submit: Submit,
    *,
    tokens: Sequence[Token] = (),
    key: bytes | None = KEY,
    wall: Callable[[], float] = time.time,
    shared: Shared | None = None,
    outages_in_text: Sequence[str] = (),
    **options: Any,
) -> AccessControl:
    """Return the application of a gateway. Without tokens it serves this machine."""
    text = ""
    for token in tokens:
        text = with_token(text, token)
    shared = shared or Shared()
    decide = DecideRoutes(gear, submit, shared, key=key, wall=wall, **options)
    hooks = HookRoutes(gear, submit, shared, wall=wall, outages_in_text=outages_in_text)
    routes = Routes([*decide.routes, *hooks.routes])
    return AccessControl(
        create_application(routes, elsewhere=""),
        authenticator=Authenticator([FixedTokens(text, "tokens")] if tokens else []),
        hosts=KnownHosts(None, "127.0.0.1:8622", "SWITCHGEAR_X"),
        role_of=routes.role_of,
        limits=Limits(),
        origins=Origins(None),
    )


class GatewayClient:
    """Asks a gateway as a client without state does."""

    def __init__(self, app: AccessControl, *, token: str | None = None, address: str = "127.0.0.1") -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    async def post(self, path: str, *, resent: bool = False, **fields: Any) -> httpx.Response:
        """Send a request."""
        return await self._http.post(path, json=fields, headers={"Switchgear-Resent": "true"} if resent else {})

    async def raw(self, path: str, body: bytes, content_type: str = "application/json") -> httpx.Response:
        """Send any bytes."""
        return await self._http.post(path, content=body, headers={"Content-Type": content_type})

    async def decide(self, tool: str, **fields: Any) -> dict[str, Any]:
        """Return the answer about a call."""
        response = await self.post("/v1/decide", tool=tool, **fields)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def outcome(self, permit: str, status: str = "success", *, resent: bool = False, **fields: Any) -> int:
        """Send the end of a call. Return the status of the response."""
        response = await self.post("/v1/outcome", resent=resent, permit=permit, status=status, **fields)
        return response.status_code

    async def call(self, tool: str, status: str = "success", **fields: Any) -> dict[str, Any]:
        """Ask, and if the call is permitted, make one that ends in this way."""
        answer = await self.decide(tool)
        if answer["allowed"]:
            assert await self.outcome(answer["permit"], status, **fields) == 204
        return answer

    async def hook(self, event: str, *, query: str = "", **fields: Any) -> httpx.Response:
        """Send an event as Claude Code does."""
        common = {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/", "hook_event_name": event}
        return await self.post(f"/v1/hooks/claude-code{query}", **common, **fields)
