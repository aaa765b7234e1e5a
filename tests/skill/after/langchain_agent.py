"""A LangChain agent with a tool that is down. The model is scripted."""

from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from switchgear import Switchgear
from switchgear.integrations.langchain import SwitchgearMiddleware

gear = Switchgear.from_env(service="planner")
CALLS: list[str] = []


class ScriptedModel(GenericFakeChatModel):
    """Asks for the forecast of ten cities, one in a turn."""

    def bind_tools(self, tools, **_options):
        return self


@tool
def get_forecast(city: str) -> str:
    """Return the forecast of a city."""
    CALLS.append(city)
    raise ConnectionError("weather.example refused the connection")


def turns():
    """Return what the model says."""
    for number in range(10):
        yield AIMessage(
            "", tool_calls=[{"name": "get_forecast", "args": {"city": f"city {number}"}, "id": f"{number}"}]
        )
    yield AIMessage("I can't see the weather.")


def main() -> None:
    """Run one conversation."""
    errors = ToolErrorMiddleware(lambda error, _request: f"Error: {error}")
    agent = create_agent(
        ScriptedModel(messages=turns()), [get_forecast], middleware=[errors, SwitchgearMiddleware(gear)]
    )
    said = agent.invoke({"messages": [("user", "Compare the weather of ten cities.")]}, {"recursion_limit": 100})
    for message in said["messages"]:
        if message.type == "tool":
            print(message.text)
    print(len(CALLS), "calls reached the tool")
    gear.close()


main()
