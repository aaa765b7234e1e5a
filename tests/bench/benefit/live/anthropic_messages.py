"""A model behind an endpoint in the format of Anthropic's messages. The prompt is cached up to the newest message."""

from __future__ import annotations

from typing import Any

import httpx

from tests.bench.benefit.live.chat import Message, Result, Said, ToolCall, Turn
from tests.bench.benefit.tokens import Spent

URL = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
MOST_TOKENS = 2_048
NOTHING = "(nothing)"
"""The API takes no message without content."""
_CACHED = {"cache_control": {"type": "ephemeral"}}


class AnthropicMessages:
    """Calls ``POST /messages``."""

    def __init__(self, client: httpx.AsyncClient, model: str, key: str) -> None:
        self._client = client
        self._model = model
        self._headers = {"x-api-key": key, "anthropic-version": VERSION}

    async def turn(self, system: str, tools: list[dict[str, Any]], messages: list[Message]) -> Turn:
        said = _merged(messages)
        said[-1]["content"][-1] |= _CACHED
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": MOST_TOKENS,
            "system": [{"type": "text", "text": system, **_CACHED}],
            "messages": said,
            "tools": [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in tools
            ],
        }
        response = await self._client.post("/messages", json=body, headers=self._headers)
        response.raise_for_status()
        answer = response.json()
        parts = answer["content"]
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        calls = tuple(
            ToolCall(part["id"], part["name"], dict(part["input"])) for part in parts if part["type"] == "tool_use"
        )
        return Turn(text, calls, _spent(answer["usage"]))


def _merged(messages: list[Message]) -> list[dict[str, Any]]:
    """Return the conversation with its parts by role: what users say and what calls came to are one message."""
    found: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, Turn) else "user"
        if not found or found[-1]["role"] != role:
            found.append({"role": role, "content": []})
        found[-1]["content"] += _parts(message)
    return found


def _parts(message: Message) -> list[dict[str, Any]]:
    match message:
        case Said(text):
            return [{"type": "text", "text": text}]
        case Result(call_id, text):
            return [{"type": "tool_result", "tool_use_id": call_id, "content": text}]
        case Turn(text, calls):
            used = [
                {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments} for call in calls
            ]
            return [{"type": "text", "text": text or NOTHING}, *used] if text or not used else used


def _spent(usage: dict[str, Any]) -> Spent:
    """Return the tokens. Uncached ones count as written."""
    written = usage.get("input_tokens", 0) + (usage.get("cache_creation_input_tokens") or 0)
    return Spent(usage.get("cache_read_input_tokens") or 0, written, 0, usage.get("output_tokens", 0))
