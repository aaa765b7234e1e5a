"""A Google ADK agent whose services break. The model is scripted: no key, no network.

pip install "switchgear[google-adk]"
"""

import asyncio
import logging

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.google_adk import SwitchgearPlugin


class ScriptedModel(BaseLlm):
    """Asks for the news, then for the forecast, like a model that doesn't learn from errors."""

    plan: list[str]

    async def generate_content_async(self, llm_request, stream=False):
        """Ask for the next tool."""
        tools = llm_request.config.tools or []
        print("  offered:", ", ".join(sorted(each.name for tool in tools for each in tool.function_declarations)))
        part = types.Part(text="That is all I know.")
        if self.plan:
            part = types.Part.from_function_call(name=self.plan.pop(0), args={"city": "Oslo"})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def get_news(city: str) -> dict:
    """Return the news of a city."""
    return {"error": f"HTTP Error 503: Service Unavailable ({city})"}


def get_forecast(city: str) -> dict:
    """Return the forecast for a city."""
    raise ConnectionError("weather.example refused the connection")


def get_climate(city: str) -> dict:
    """Return what the weather in a city is usually like."""
    return {"climate": f"usually mild in {city}"}


async def ask(gear: Switchgear) -> None:
    """Run the agent once and print what its tools answered."""
    agent = LlmAgent(
        name="assistant",
        model=ScriptedModel(model="scripted", plan=["get_news", "get_forecast"]),
        tools=[get_news, get_forecast, get_climate],
    )
    runner = InMemoryRunner(app=App(name="weather", root_agent=agent, plugins=[SwitchgearPlugin(gear)]))
    session = await runner.session_service.create_session(app_name="weather", user_id="ana")
    question = types.UserContent("How is Oslo?")
    try:
        async for event in runner.run_async(user_id="ana", session_id=session.id, new_message=question):
            for answer in event.get_function_responses():
                print(f"  {answer.name}: {answer.response}")
    except ConnectionError as error:  # an exception of a tool ends a run of this framework
        print(f"  the run failed: {error}")


def main() -> None:
    """Ask three times."""
    logging.disable(logging.CRITICAL)  # the framework logs each exception with its traceback
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"get_forecast": "get_climate"},
        outages_in_text=["get_news"],  # it answers with the error of its own backend
    )
    for run in range(1, 4):
        print(f"run {run}")
        asyncio.run(ask(gear))
    print(gear.notice())


main()
