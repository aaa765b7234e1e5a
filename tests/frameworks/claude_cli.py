"""A transport that speaks the control protocol of Claude Code, with a scripted model in place of the real one.

The real SDK dispatches the hooks and serves the in-process MCP server. The answers follow Claude Code's documentation: hooks
are asked before the deny rules, a failed result of an MCP tool is a PostToolUseFailure with its text, and an unknown tool has
no hooks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from claude_agent_sdk import Transport

from tests.support.limits import HAPPEN_S

SESSION = "s-claude"
LIMIT_S = HAPPEN_S


class FakeCLI(Transport):
    """Plays Claude Code for one prompt.

    Attributes:
        turns: The calls that the model asks for, turn by turn: name and arguments.
        server: The name of the in-process server that has the tools.
        results: The texts of the calls' results.
        tools: What the server lists.
        contexts: What hooks added to the conversation.
        conversation: What was said before each request, one text per request.
        requests: How often the model was asked.
        denies: Names of tools that the user denies, after the hooks.
        interrupted: The user stops the running call: its end is an interrupt.
        events: The inputs of all hooks.
    """

    def __init__(self, turns: Sequence[Sequence[tuple[str, Mapping[str, Any]]]], server: str = "suite") -> None:
        self.turns, self.server = turns, server
        self.results: list[str] = []
        self.tools: list[str] = []
        self.contexts: list[str] = []
        self.conversation: list[str] = []
        self._said: list[str] = []
        self._waiting: list[str] = []
        """Contexts that follow the results of the turn."""
        self.requests = 0
        self.denies: set[str] = set()
        self.interrupted = asyncio.Event()
        self.stopping = False
        self.events: list[dict[str, Any]] = []
        self.stop_reason = ""
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._hooks: dict[str, list[str]] = {}
        self._ids = itertools.count()
        self._run: asyncio.Task[None] | None = None

    # -- the transport ------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Nothing to start."""

    async def end_input(self) -> None:
        await self._out.put(None)  # the SDK ends the input after the result, and then the process ends

    def is_ready(self) -> bool:
        return True

    async def close(self) -> None:
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run], timeout=LIMIT_S)
        await self._out.put(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_request":
                await self._asked(message["request_id"], message["request"])
            elif message["type"] == "control_response":
                self._answers.pop(message["response"]["request_id"]).set_result(message["response"])
            elif message["type"] == "user":
                self._run = asyncio.create_task(self._prompt(message["message"]["content"]))

    async def _asked(self, request_id: str, request: dict[str, Any]) -> None:
        if request["subtype"] == "initialize":
            for event, matchers in (request["hooks"] or {}).items():
                self._hooks[event] = [each for matcher in matchers for each in matcher["hookCallbackIds"]]
        elif request["subtype"] == "interrupt":
            self.interrupted.set()
        response = {"subtype": "success", "request_id": request_id, "response": {}}
        await self._out.put({"type": "control_response", "response": response})

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        request_id = f"cli-{next(self._ids)}"
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        await self._out.put({"type": "control_request", "request_id": request_id, "request": request})
        async with asyncio.timeout(LIMIT_S):
            found = await answer
        if found["subtype"] == "error":
            raise RuntimeError(found["error"])
        return found["response"]

    # -- a session ----------------------------------------------------------------------------------------------------

    async def hook(self, event: str, tool_use_id: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Run the hooks of an event and return their answers."""
        data = {"hook_event_name": event, "session_id": SESSION, "transcript_path": "", "cwd": "/", **fields}
        if tool_use_id is not None:
            data["tool_use_id"] = tool_use_id
        self.events.append(data)
        asked = [
            self._ask({"subtype": "hook_callback", "callback_id": each, "input": data, "tool_use_id": tool_use_id})
            for each in self._hooks.get(event, ())
        ]
        return list(await asyncio.gather(*asked))

    async def mcp(self, method: str, params: Mapping[str, Any], *, notifies: bool = False) -> dict[str, Any]:
        """Send a message to the in-process server and return its result."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        if not notifies:
            message["id"] = next(self._ids)
        answer = await self._ask({"subtype": "mcp_message", "server_name": self.server, "message": message})
        result: dict[str, Any] = answer["mcp_response"]["result"]
        return result

    async def _prompt(self, text: str) -> None:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cli", "version": "1"}}
        await self.mcp("initialize", client)
        await self.mcp("notifications/initialized", {}, notifies=True)
        self.tools = [f"mcp__{self.server}__{each['name']}" for each in (await self.mcp("tools/list", {}))["tools"]]
        self._said.append(text)
        self._take_context(await self.hook("UserPromptSubmit", prompt=text))
        for turn, calls in enumerate(self.turns):
            self._request()
            results = await asyncio.gather(
                *(self.call(f"t-{turn}-{number}", name, given) for number, (name, given) in enumerate(calls))
            )
            self.results += results
            self._said += [*results, *self._waiting]
            self._waiting.clear()
            if self.stop_reason or self.interrupted.is_set():
                break
        else:
            self._request()
            await self.hook("Stop", stop_hook_active=False)
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": self.requests,
            "result": "done",
        }
        await self._out.put({**result, "duration_ms": 1, "duration_api_ms": 1, "session_id": SESSION})

    async def call(self, use_id: str, name: str, given: Mapping[str, Any]) -> str:
        """Make one call of the model and return the text of its result."""
        if name not in self.tools:
            return f"No such tool available: {name}"
        fields = {"tool_name": name, "tool_input": dict(given)}
        for answer in await self.hook("PreToolUse", use_id, **fields):
            if answer.get("continue") is False:
                self.stop_reason = answer["stopReason"]
            output = answer.get("hookSpecificOutput", {})
            if output.get("permissionDecision") == "deny":
                return output["permissionDecisionReason"]
        if name in self.denies:
            return "The user doesn't want to take this action right now."
        result = await self.mcp("tools/call", {"name": name.rpartition("__")[2], "arguments": dict(given)})
        text = "\n".join(block["text"] for block in result["content"])
        if self.stopping:
            async with asyncio.timeout(LIMIT_S):
                await self.interrupted.wait()
            await self.hook("PostToolUseFailure", use_id, **fields, error="Interrupted by user", is_interrupt=True)
        elif result.get("isError"):
            self._take_context(await self.hook("PostToolUseFailure", use_id, **fields, error=text))
        else:
            self._take_context(await self.hook("PostToolUse", use_id, **fields, tool_response=result["content"]))
        return text

    def _request(self) -> None:
        """Ask the model."""
        self._said += self._waiting
        self._waiting.clear()
        self.requests += 1
        self.conversation.append("".join(f"\n{each}" for each in self._said))

    def _take_context(self, answers: list[dict[str, Any]]) -> None:
        """Keep what hooks add to the conversation. What they add after a call follows the results of its turn."""
        for answer in answers:
            if "hookSpecificOutput" in answer:
                self.contexts.append(answer["hookSpecificOutput"]["additionalContext"])
                self._waiting.append(self.contexts[-1])
