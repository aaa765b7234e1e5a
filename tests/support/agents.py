"""Agents in processes and languages of their own that share one tool, and the conductor that says when they call it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Self

from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, environment
from tests.support.snippets import REPOSITORY
from tests.support.typescript import built_client

LIMIT_S = HAPPEN_S
FLUSH_S = 30
HERE = Path(__file__).parent


class AgentLink:
    """The connection to one agent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def answer(self) -> dict[str, Any]:
        """Return what the agent says next."""
        async with asyncio.timeout(LIMIT_S):
            found: dict[str, Any] = json.loads(await self._reader.readline())
        return found

    def say(self, do: str, **fields: Any) -> None:
        """Send a command."""
        self._writer.write(json.dumps({"do": do} | fields).encode() + b"\n")

    async def call(self, tool: str, times: int = 1, *, away: bool = False) -> dict[str, Any]:
        """Let the agent call a tool. Return how the calls ended, when their events are in Kafka, or at once if its gateway is away."""
        self.say("call", tool=tool, times=times, flush_s=0.1 if away else FLUSH_S)
        return await self.answer() if away else await self._flushed()

    def loop(self, tool: str) -> None:
        """Let the agent call a tool again and again."""
        self.say("loop", tool=tool)

    async def stop(self) -> dict[str, Any]:
        """End the calls. Return how they ended, when their events are in Kafka."""
        self.say("stop")
        return await self._flushed()

    async def status(self, tool: str) -> dict[str, Any]:
        """Return what the agent knows of a tool, without a call."""
        self.say("status", tool=tool)
        return await self.answer()

    async def until(self, tool: str, *, available: bool) -> None:
        """Wait until the agent would call the tool, or wouldn't."""
        async with asyncio.timeout(LIMIT_S):
            while (await self.status(tool))["available"] is not available:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)

    async def _flushed(self) -> dict[str, Any]:
        found = await self.answer()
        assert found.pop("flushed"), "events were not sent: those of other agents could come before them"
        return found

    def close(self) -> None:
        """End the agent."""
        self._writer.close()


class Conductor:
    """Agents connect to it. ``async with`` starts it, and ends the agents."""

    def __init__(self, folder: Path, tool_port: int) -> None:
        self._folder = folder
        self._tool_port = tool_port
        self._found: dict[str, AgentLink] = {}
        self._children: list[Child] = []

    async def python(self, name: str, servers: str, *, prefix: str = "", token: str = "") -> AgentLink:
        """Start an agent with the Python client, on Kafka or on a gateway."""
        command = [sys.executable, "-m", "tests.support.agent_process"]
        return await self._started(name, [*command, name, *self._ports(), servers, prefix, token])

    async def typescript(self, name: str, url: str, *, token: str = "") -> AgentLink:
        """Start an agent with the TypeScript client."""
        folder = await asyncio.to_thread(built_client)
        script = self._folder / "agent.mjs"
        shutil.copy(HERE / "agent.mjs", script)
        package = folder / "node_modules" / "@switchgear" / "client"
        return await self._started(
            name, [shutil.which("node") or "node", str(script), name, *self._ports(), url, token, str(package)]
        )

    def _ports(self) -> list[str]:
        return [str(self._server.sockets[0].getsockname()[1]), str(self._tool_port)]

    async def _started(self, name: str, command: list[str]) -> AgentLink:
        child = Child(command, self._folder / f"agent-{name}.log", environment(), REPOSITORY)
        self._children.append(child)
        async with asyncio.timeout(LIMIT_S):
            while name not in self._found:
                assert child.alive, child.output()
                await asyncio.sleep(0.05)
        return self._found[name]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = AgentLink(reader, writer)
        self._found[(await link.answer())["name"]] = link

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._found.values():
            link.close()
        self._server.close()
        for child in self._children:
            await asyncio.to_thread(child.__exit__)
