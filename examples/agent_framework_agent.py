"""An agent of Microsoft Agent Framework whose weather service breaks. The model is scripted: no key, no network.

pip install "switchgear[agent-framework]"
"""

import asyncio

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.agent_framework import guard_middleware


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Asks for the forecast first, like a model that doesn't learn from errors."""

    def _inner_get_response(self, *, messages, stream, options, **_more):
        print("  offered:", ", ".join(each.name for each in options["tools"]))

        async def answer():
            if messages[-1].role == "user":
                call = Content.from_function_call(call_id="call-1", name="get_forecast", arguments={"city": "Oslo"})
                return ChatResponse(messages=[Message(role="assistant", contents=[call])])
            return ChatResponse(messages=[Message(role="assistant", contents=["That is all I know."])])

        return answer()


def get_forecast(city: str) -> str:
    """Return the forecast for a city."""
    raise ConnectionError("weather.example refused the connection")


def get_climate(city: str) -> str:
    """Return what the weather in a city is usually like."""
    return f"usually mild in {city}"


async def main() -> None:
    """Ask three times."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"get_forecast": "get_climate"},
    )
    agent = Agent(
        client=ScriptedClient(function_invocation_configuration={"include_detailed_errors": True}),
        tools=[get_forecast, get_climate],
        middleware=guard_middleware(gear),
    )
    for run in range(1, 4):
        print(f"run {run}")
        found = await agent.run("How is the weather in Oslo?")
        for message in found.messages:
            for content in message.contents:
                if content.type == "function_result":
                    print("  result:", content.result)
    print(gear.notice())


asyncio.run(main())
