"""A model behind an endpoint in the format of OpenAI's chat completions."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.bench.benefit.live.chat import Message, Result, Said, ToolCall, Turn
from tests.bench.benefit.tokens import Spent

URL = "https://api.openai.com/v1"


class OpenAIChat:
    """Calls ``POST /chat/completions``."""

    def __init__(self, client: httpx.AsyncClient, model: str, key: str) -> None:
        self._client = client
        self._model = model
        self._headers = {"authorization": f"Bearer {key}"}

    async def turn(self, system: str, tools: list[dict[str, Any]], messages: list[Message]) -> Turn:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, *map(_message, messages)],
        }
        if tools:  # the API rejects an empty list
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        response = await self._client.post("/chat/completions", json=body, headers=self._headers)
        response.raise_for_status()
        answer = response.json()
        message = answer["choices"][0]["message"]
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        )
        return Turn(message.get("content") or "", calls, _spent(answer.get("usage") or {}))


def _message(message: Message) -> dict[str, Any]:
    match message:
        case Said(text):
            return {"role": "user", "content": text}
        case Result(call_id, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case Turn(text, calls):
            said: dict[str, Any] = {"role": "assistant", "content": text}
            if calls:
                said["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                    }
                    for call in calls
                ]
            return said


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call. Those that are no JSON object are none, and the tool says which it lacks."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _spent(usage: dict[str, Any]) -> Spent:
    """Return the tokens. What wasn't read from the cache counts as written into it."""
    read = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Spent(read, usage.get("prompt_tokens", 0) - read, 0, usage.get("completion_tokens", 0))
