"""A client of MCP without any SDK: it sends requests one by one, and keeps the bytes of what comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import httpx2
import msgspec

from tests.frameworks.proxies import environment
from tests.support.limits import HAPPEN_S

_MOST_LINE: Final = 64 * 1_048_576
Members = dict[str, bytes]
"""The members of a message, each with the bytes of its value."""


class Wire(Protocol):
    """A connection to a server or to the proxy."""

    async def ask(self, request: Mapping[str, Any]) -> Members:
        """Send a request and return its answer. What else comes is in ``others``."""

    async def tell(self, notification: Mapping[str, Any]) -> None:
        """Send a notification."""

    others: list[Members]


def members_of(line: bytes) -> Members:
    """Return the members of a message."""
    return {key: bytes(value) for key, value in msgspec.json.decode(line, type=dict[str, msgspec.Raw]).items()}


class _Stdio:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.others: list[Members] = []

    async def ask(self, request: Mapping[str, Any]) -> Members:
        await self.tell(request)
        assert self._process.stdout is not None
        number = json.dumps(request["id"]).encode()
        async with asyncio.timeout(HAPPEN_S):
            while line := await self._process.stdout.readline():
                found = members_of(line)
                if "method" not in found and found.get("id") == number:
                    return found
                self.others.append(found)
        raise ConnectionError(f"The server ended before it answered {request}.")

    async def tell(self, notification: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(notification).encode() + b"\n")
        await self._process.stdin.drain()


@asynccontextmanager
async def over_stdio(command: Sequence[str], env: Mapping[str, str] | None = None) -> AsyncIterator[Wire]:
    """Start a server, or the proxy in front of one."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(**(env or {})),
        limit=_MOST_LINE,
    )
    assert process.stdin is not None
    try:
        yield _Stdio(process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(HAPPEN_S):
            await process.wait()


class _Http:
    def __init__(self, url: str, client: httpx2.AsyncClient) -> None:
        self._url, self._client = url, client
        self._headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self.others: list[Members] = []

    async def ask(self, request: Mapping[str, Any]) -> Members:
        response = await self._post(request)
        lines = [response.content]
        if response.headers["content-type"].startswith("text/event-stream"):
            events = response.content.replace(b"\r\n", b"\n").split(b"\n")
            lines = [line[6:] for line in events if line.startswith(b"data: ")]
        found = [members_of(line) for line in lines if line.strip()]
        self.others += [each for each in found if "method" in each]
        (answer,) = [each for each in found if "method" not in each]
        if request["method"] == "initialize" and "result" in answer:
            self._headers["mcp-session-id"] = response.headers.get("mcp-session-id", "")
            self._headers["mcp-protocol-version"] = json.loads(answer["result"])["protocolVersion"]
        return answer

    async def tell(self, notification: Mapping[str, Any]) -> None:
        await self._post(notification)

    async def _post(self, message: Mapping[str, Any]) -> httpx2.Response:
        meta = (message.get("params") or {}).get("_meta") or {}
        headers = dict(self._headers)
        if version := meta.get("io.modelcontextprotocol/protocolVersion"):
            headers |= {"mcp-protocol-version": version, "mcp-method": message["method"]}
            name = message["params"].get("name") or message["params"].get("uri")
            headers |= {"mcp-name": name} if isinstance(name, str) else {}
        return await self._client.post(self._url, content=json.dumps(message).encode(), headers=headers)


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[Wire]:
    """Connect to a server, or to the proxy in front of one."""
    async with httpx2.AsyncClient(timeout=HAPPEN_S) as client:
        yield _Http(url, client)
