"""A loop over chat completions with function calling. The model and its tool are scripted; the loop is a usual one."""

import json
from collections.abc import Iterator
from typing import Any

from switchgear import CircuitOpenError, Switchgear

gear = Switchgear.from_env(service="planner")
CALLS: list[str] = []


def get_forecast(city: str) -> str:
    """Return the forecast of a city."""
    CALLS.append(city)
    raise ConnectionError("weather.example refused the connection")


TOOLS = {"get_forecast": gear.guard("mcp:weather:get_forecast")(get_forecast)}
NAMES = {"mcp:weather:get_forecast": "get_forecast"}


def completions() -> Iterator[dict[str, Any]]:
    """Answer like a model that asks for the forecast of ten cities, one in a turn."""
    for number in range(10):
        called = {"name": "get_forecast", "arguments": json.dumps({"city": f"city {number}"})}
        yield {"role": "assistant", "tool_calls": [{"id": f"call-{number}", "type": "function", "function": called}]}
    yield {"role": "assistant", "content": "I can't see the weather."}


def run_tool(name: str, arguments: str) -> str:
    """Return what the model reads."""
    try:
        return TOOLS[name](**json.loads(arguments))
    except CircuitOpenError as refused:
        return refused.text
    except Exception as error:
        return f"Error: {error}"


def main() -> None:
    """Run one conversation."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Compare the weather of ten cities."}]
    for answer in completions():
        messages.append(answer)
        for call in answer.get("tool_calls", []):
            result = run_tool(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if outage := gear.outage_message("conversation-1", name_of=NAMES):
            messages.append({"role": "user", "content": outage})
    for message in messages:
        if message["role"] == "tool":
            print(message["content"])
    print(len(CALLS), "calls reached the tool")
    gear.close()


main()
