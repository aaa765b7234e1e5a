"""A crew whose weather service breaks. The model is scripted: no key, no network.

pip install "switchgear[crewai]"
"""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # before crewai is imported

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.crewai import guard_crews


class ScriptedLLM(BaseLLM):
    """Asks for the news, then for the forecast, like a model that doesn't learn from errors."""

    plan: list[str]

    def supports_function_calling(self):
        return True

    def call(self, messages, tools=None, **_options):
        print("  offered:", ", ".join(sorted(each["function"]["name"] for each in tools or [])))
        if messages[-1]["role"] == "tool":
            print(f"  {messages[-1]['name']}: {messages[-1]['content']}")
        if not self.plan:
            return "That is all I know."
        call = {"name": self.plan.pop(0), "arguments": '{"city": "Oslo"}'}
        return [{"id": f"call-{len(messages)}", "type": "function", "function": call}]


@tool
def get_news(city: str) -> str:
    """Return the news of a city."""
    raise TimeoutError("news.example did not answer")


@tool
def get_forecast(city: str) -> str:
    """Return the forecast for a city."""
    raise ConnectionError("weather.example refused the connection")


@tool
def get_climate(city: str) -> str:
    """Return what the weather in a city is usually like."""
    return f"usually mild in {city}"


def ask() -> None:
    """Run a crew of one agent."""
    agent = Agent(
        role="Reporter",
        goal="Report on a city.",
        backstory="You are brief.",
        llm=ScriptedLLM(model="scripted", plan=["get_news", "get_forecast"]),
        tools=[get_news, get_forecast, get_climate],
        respect_context_window=False,  # the scripted model has none
    )
    task = Task(description="How is Oslo?", expected_output="A report.", agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()


def main() -> None:
    """Ask three times."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"get_forecast": "get_climate"},
    )
    guard_crews(gear)
    for run in range(1, 4):
        print(f"run {run}")
        ask()
    print(gear.notice())


main()
