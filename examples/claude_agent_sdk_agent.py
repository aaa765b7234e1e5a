"""A Claude agent whose MCP server breaks. A script plays Claude Code: no key, no network.

pip install "switchgear[claude-agent-sdk]"
"""

import asyncio
import json

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.claude_agent_sdk import guard_options

TOOL = {"tool_name": "mcp__weather__get_forecast", "tool_input": {"city": "Oslo"}}


class ScriptedClaude(Transport):
    """Speaks the protocol between the SDK and Claude Code. The model asks for the forecast once per prompt."""

    async def connect(self):
        self.messages, self.answers, self.hooks = asyncio.Queue(), asyncio.Queue(), {}

    async def write(self, data):
        message = json.loads(data)
        if message["type"] == "control_request":
            hooks = message["request"].get("hooks") or {}
            self.hooks = {event: matchers[0]["hookCallbackIds"][0] for event, matchers in hooks.items()}
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self.messages.put({"type": "control_response", "response": answer})
        elif message["type"] == "control_response":
            await self.answers.put(message["response"]["response"])
        else:
            self.turn = asyncio.create_task(self.prompt())

    async def hook(self, event, **fields):
        data = {"hook_event_name": event, "session_id": "s-1", "tool_use_id": "call-1", **fields}
        request = {"subtype": "hook_callback", "callback_id": self.hooks[event], "input": data, "tool_use_id": "call-1"}
        await self.messages.put({"type": "control_request", "request_id": event, "request": request})
        return (await self.answers.get()).get("hookSpecificOutput", {})

    async def prompt(self):
        context = (await self.hook("UserPromptSubmit", prompt="How is the weather?")).get("additionalContext")
        print("  context:", context)
        answer = await self.hook("PreToolUse", **TOOL)
        if answer.get("permissionDecision") == "deny":
            print("  refused:", answer["permissionDecisionReason"])
        else:
            print("  the server closes the connection")
            failed = {"error": "MCP error -32000: Connection closed", "duration_ms": 80}
            told = await self.hook("PostToolUseFailure", **TOOL, **failed)
            print("  context:", told.get("additionalContext"))
        result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": "s-1"}
        await self.messages.put({**result, "duration_ms": 1, "duration_api_ms": 1})

    async def read_messages(self):
        while (message := await self.messages.get()) is not None:
            yield message

    async def close(self):
        await self.messages.put(None)

    async def end_input(self):
        pass

    def is_ready(self):
        return True


async def main() -> None:
    """Ask three times in one session, then look at what a new session would offer."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"mcp:weather:get_forecast": "mcp:weather:get_climate"},
        tool_list="new_sessions",
    )
    given = ClaudeAgentOptions(
        mcp_servers={"weather": {"command": "weather-server"}},
        allowed_tools=["mcp__weather__get_forecast", "mcp__weather__get_climate"],
    )
    async with ClaudeSDKClient(guard_options(gear, given), transport=ScriptedClaude()) as client:
        for prompt in range(1, 4):
            print(f"prompt {prompt}")
            await client.query("How is the weather in Oslo?")
            async for _message in client.receive_response():
                pass
    print("a new session hides:", ", ".join(guard_options(gear, given).disallowed_tools))


asyncio.run(main())
