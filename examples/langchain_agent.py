"""A LangChain agent whose weather service breaks. The model is scripted: no key, no network.

pip install "switchgear[langchain]"
"""

from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.langchain import SwitchgearMiddleware


class ScriptedModel(GenericFakeChatModel):
    """Asks for the forecast again and again, like a model that doesn't learn from errors."""

    def bind_tools(self, tools, **_options):
        print("  offered:", ", ".join(each.name for each in tools))
        return self


@tool
def get_forecast(city: str) -> str:
    """Return the forecast for a city."""
    raise ConnectionError("weather.example refused the connection")


@tool
def get_climate(city: str) -> str:
    """Return what the weather in a city is usually like."""
    return f"usually mild in {city}"


def ask(agent) -> None:
    """Run the agent once and print what its tools answered."""
    for message in agent.invoke({"messages": [("user", "How is the weather in Oslo?")]})["messages"]:
        if message.type == "tool":
            print(f"  {message.name}: {message.text}")


def main() -> None:
    """Ask four times."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"get_forecast": "get_climate"},
    )
    calls = [{"name": "get_forecast", "args": {"city": "Oslo"}, "id": "call-1"}]
    for run in range(1, 5):
        print(f"run {run}")
        model = ScriptedModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("That is all I know.")]))
        # The framework's own middleware shows errors to the model. Put it first: it is around Switchgear's.
        errors = ToolErrorMiddleware(lambda error, _request: str(error))
        ask(create_agent(model, [get_forecast, get_climate], middleware=[errors, SwitchgearMiddleware(gear)]))
    print(gear.notice())


main()
