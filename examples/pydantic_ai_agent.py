"""An agent of pydantic-ai with a tool that breaks. Run ``python examples/pydantic_ai_agent.py``.

It needs no key and no network, because the model is scripted. Install ``switchgear[pydantic-ai]``.
"""

from __future__ import annotations

from pydantic_ai import Agent, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.pydantic_ai import SwitchgearCapability

gear = Switchgear.local(
    local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30),
    fallbacks={"get_forecast": "backup_forecast"},
)
down = {"weather.example"}  # servers that refuse connections


def connect(server: str) -> None:
    """Fail like a client whose server is down. The model reads the text of a ToolFailed; other exceptions end the run."""
    if server in down:
        raise ToolFailed(f"{server} refused the connection") from ConnectionError("connection refused")


def get_forecast(city: str) -> str:
    """Return the weather of a city."""
    connect("weather.example")
    return f"sunny in {city}"


def get_news(city: str) -> str:
    """Return the news of a city."""
    return f"no news of {city}"


def backup_forecast(city: str) -> str:
    """Return the weather of a city as it was yesterday."""
    connect("backup.example")
    return f"cloudy in {city}, says the backup"


def run(title: str, *turns: tuple[str, ...]) -> None:
    """Run an agent whose model calls the tools of each turn, and print what it was offered and what its calls returned."""
    print(f"-- {title}")
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        said = sum(isinstance(message, ModelResponse) for message in messages)
        tools = turns[said] if said < len(turns) else ()
        return ModelResponse([ToolCallPart(tool, {"city": "Oslo"}) for tool in tools] or [TextPart("I can't say.")])

    agent = Agent(
        FunctionModel(model),
        instructions="Be brief.",
        tools=[get_forecast, get_news, backup_forecast],
        capabilities=[SwitchgearCapability(gear)],
    )
    result = agent.run_sync("How is Oslo?")
    print("offered:", ", ".join(tool.name for tool in seen[0].function_tools) or "nothing")
    for message in result.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                print(part.tool_name, "->", str(part.content).replace(". ", ".\n  "))
    if seen[-1].instructions != "Be brief.":
        print("prompt:", str(seen[-1].instructions).replace("\n", " "))
    print("answer:", result.output)


run("the tool fails twice, and its circuit opens", ("get_forecast",), ("get_forecast",))
run("the model asks for it nevertheless: the backup answers", ("get_forecast", "get_news"))
down.add("backup.example")
run("the backup fails too", ("backup_forecast",), ("backup_forecast",))
run("both are refused", ("get_forecast",))
