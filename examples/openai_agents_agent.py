"""An agent of the OpenAI Agents SDK with a tool that breaks. Run ``python examples/openai_agents_agent.py``.

It needs no key and no network, because the model is scripted. Install ``switchgear[openai-agents]``.
"""

from __future__ import annotations

import asyncio
import logging

from agents import Agent, RunConfig, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.openai_agents import SwitchgearRunner

logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # the SDK logs the traceback of a tool's exception

gear = Switchgear.local(
    local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30),
    fallbacks={"get_forecast": "backup_forecast"},
)
runner = SwitchgearRunner(gear)
down = {"weather.example"}  # servers that refuse connections


def connect(server: str) -> None:
    """Fail like a client whose server is down."""
    if server in down:
        raise ConnectionError(f"{server} refused the connection")


@function_tool
def get_forecast(city: str) -> str:
    """Return the weather of a city."""
    connect("weather.example")
    return f"sunny in {city}"


@function_tool
def get_news(city: str) -> str:
    """Return the news of a city."""
    return f"no news of {city}"


@function_tool
def backup_forecast(city: str) -> str:
    """Return the weather of a city as it was yesterday."""
    connect("backup.example")
    return f"cloudy in {city}, says the backup"


def ask(number: int, *tools: str) -> list[object]:
    """Return what the model says to call tools."""
    return [function_call(tool, {"city": "Oslo"}, call_id=f"{number}-{tool}") for tool in tools]


async def run(title: str, *steps: list[object]) -> None:
    """Run an agent whose model says ``steps``, and print what it was offered and what its calls returned."""
    print(f"-- {title}")
    model = ScriptedModel([*steps, [assistant_message("I can't say.")]])
    agent = Agent("assistant", instructions="Be brief.", tools=[get_forecast, get_news, backup_forecast], model=model)
    result = await runner.run(agent, "How is Oslo?", run_config=RunConfig(tracing_disabled=True))
    print("offered:", ", ".join(tool.name for tool in model.calls[0].tools) or "nothing")
    names = {}
    for item in result.new_items:
        if item.type == "tool_call_item":
            names[item.raw_item.call_id] = item.raw_item.name
        elif item.type == "tool_call_output_item":
            print(names[item.raw_item["call_id"]], "->", item.output.replace(". ", ".\n  "))
    if model.calls[-1].system_instructions != "Be brief.":
        print("prompt:", model.calls[-1].system_instructions.replace("\n", " "))
    print("answer:", result.final_output)


async def main() -> None:
    """Break one tool, then its backup."""
    await run("the tool fails twice, and its circuit opens", ask(1, "get_forecast"), ask(2, "get_forecast"))
    await run("the model asks for it nevertheless: the backup answers", ask(3, "get_forecast", "get_news"))
    down.add("backup.example")
    await run("the backup fails too", ask(4, "backup_forecast"), ask(5, "backup_forecast"))
    await run("both are refused", ask(6, "get_forecast"))


asyncio.run(main())
