"""The adapter of Microsoft Agent Framework passes the suite."""

from __future__ import annotations

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    Message,
    MiddlewareTermination,
    ResponseStream,
    tool,
)
from agent_framework.exceptions import ToolException, UserInputRequiredException

from switchgear import Switchgear
from switchgear.integrations.agent_framework import guard_middleware
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import (
    BACKUP,
    FORECAST,
    AdapterDriver,
    AdapterSuite,
    SuiteCall,
    SuiteRun,
    SuiteTool,
)
from switchgear_schemas import BreakerPolicy
from switchgear_schemas.errors import SwitchgearError
from tests.frameworks.examples import expect_example


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Notes what it is asked, and answers by the script."""

    def __init__(self, turns, **options):
        super().__init__(**options)
        self.script = [
            [
                Content.from_function_call(
                    call_id=f"call-{turn}-{number}", name=call.tool, arguments=dict(call.arguments)
                )
                for number, call in enumerate(calls)
            ]
            for turn, calls in enumerate(turns)
        ]
        self.offered, self.prompts, self.results, self.conversation = [], [], [], []

    def _inner_get_response(self, *, messages, stream, options, **_kwargs):
        self.offered.append({each.name for each in options.get("tools") or ()})
        self.prompts.append(options.get("instructions") or "")
        self.conversation.append("".join(f"\n{message.role}: {message.text}" for message in messages))
        self.note(messages)
        contents = self.script.pop(0) if self.script else [Content.from_text("done")]

        async def answer():
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        async def updates():
            yield ChatResponseUpdate(role="assistant", contents=contents)

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else answer()

    def note(self, messages):
        for message in messages:
            self.results += [
                each for each in message.contents if each.type == "function_result" and each not in self.results
            ]


class Retries(FunctionMiddleware):
    """Calls a failed tool again, by the framework's own means: a middleware may go on more than once."""

    def __init__(self, count):
        self.count = count

    async def process(self, _context, call_next):
        for _ in range(self.count):
            try:
                return await call_next()
            except MiddlewareTermination:
                raise
            except Exception:
                continue
        return await call_next()


async def finished(agent, *, stream=False, session=None):
    if not stream:
        return await agent.run("How is the weather?", session=session)
    updates = agent.run("How is the weather?", stream=True, session=session)
    async for _ in updates:
        pass
    return await updates.get_final_response()


class AgentFrameworkDriver(AdapterDriver):
    framework = "agent-framework-core"

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        client = ScriptedClient(turns, function_invocation_configuration={"include_detailed_errors": True})
        middleware = [] if gear is None else guard_middleware(gear, terminal_after=terminal_after)
        if retries:
            middleware.insert(0, Retries(retries))
        made = [tool(each.function(), approval_mode="never_require") for each in tools]
        agent = Agent(client=client, instructions="Be brief.", tools=made, middleware=middleware)
        run = SuiteRun()
        try:
            found = await finished(agent, stream=stream, session=AgentSession())
            client.note(found.messages)
        except Exception as error:
            run.error = error
        run.results = [str(each.result) for each in client.results]
        run.offered, run.prompts, run.requests = client.offered, client.prompts, len(client.prompts)
        run.conversation = client.conversation
        return run

    def interrupt(self):
        raise UserInputRequiredException([Content.from_text("Is that right?")])

    def error_value(self, text):
        raise ToolException(text)


class TestAgentFramework(AdapterSuite):
    driver = AgentFrameworkDriver()


def agent_of(gear, turns, *tools, mine=(), approval_mode="never_require", **options):
    client = ScriptedClient(turns)
    made = [tool(each.function(), approval_mode=approval_mode) for each in tools]
    middleware = [*guard_middleware(gear, **options), *mine]
    return client, Agent(client=client, tools=made, middleware=middleware)


ONE_CALL = ((SuiteCall(),),)


async def test_refusal_carries_its_data_and_the_event_the_agent_session():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    client, agent = agent_of(fleet.gear(), ONE_CALL, SuiteTool())
    await finished(agent, session=AgentSession(session_id="chat-1"))
    (result,) = client.results
    assert result.items[0].additional_properties["io.modelcontextprotocol/toolFailure"]
    assert {event["session_id"] for event in fleet.events(FORECAST)} == {"chat-1"}


async def test_terminal_refusal_ends_the_run_with_the_refusal_as_the_last_result():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    client, agent = agent_of(fleet.gear(), ONE_CALL * 5, SuiteTool(), terminal_after=1)
    found = await finished(agent)
    assert len(client.prompts) == 1
    assert "is unavailable" in str(found.messages[-1].contents[0].result)


async def test_tool_that_needs_an_approval_is_not_called_in_place_of_another_one():
    fleet = InMemoryFleet()
    gear = fleet.gear(fallbacks={FORECAST: BACKUP})
    fleet.open_circuit(FORECAST)
    backup = SuiteTool(BACKUP)
    client = ScriptedClient(ONE_CALL)
    made = [tool(SuiteTool().function()), tool(backup.function(), approval_mode="always_require")]
    await finished(Agent(client=client, tools=made, middleware=guard_middleware(gear)))
    assert backup.calls == []
    assert f"Use {BACKUP} instead." in str(client.results[0].result)


async def test_call_that_waits_for_an_approval_takes_no_permit():
    fleet = InMemoryFleet()
    each = SuiteTool()
    _, agent = agent_of(fleet.gear(), ONE_CALL, each, approval_mode="always_require")
    session = AgentSession()
    asked = await finished(agent, session=session)
    assert len(asked.user_input_requests) == 1
    assert each.calls == []
    assert fleet.events(FORECAST) == []
    answer = asked.user_input_requests[0].to_function_approval_response(approved=True)
    await agent.run(Message(role="user", contents=[answer]), session=session)
    assert each.calls == ["Oslo"]
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]


async def test_stop_by_another_middleware_counts_neither_as_a_success_nor_as_a_failure():
    class Stops(FunctionMiddleware):
        async def process(self, _context, _call_next):
            raise MiddlewareTermination("enough")

    policy = BreakerPolicy(consecutive_failures=1)
    fleet = InMemoryFleet(policy)
    each = SuiteTool()
    gear = fleet.gear(local_policies=policy)
    _, agent = agent_of(gear, ONE_CALL, each, mine=[Stops()])
    await finished(agent)
    assert each.calls == []
    assert not gear.is_open(FORECAST)
    assert [event.get("error_class") for event in fleet.events(FORECAST)] == ["policy"]


async def test_middleware_guards_the_agents_of_a_chat_client_too():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    client = ScriptedClient(ONE_CALL, middleware=guard_middleware(fleet.gear(tool_list="hide", hide_after_s=0)))
    await finished(Agent(client=client, tools=[tool(SuiteTool().function())]))
    assert "is unavailable" in str(client.results[0].result)
    assert client.offered[0] == set()


def test_guard_on_a_tool_object_names_the_adapter():
    with pytest.raises(SwitchgearError, match=r"agent_framework\.guard_middleware"):
        Switchgear.local().guard("forecast")(tool(SuiteTool().function()))


EXPECTED = [
    "run 1",
    "  offered: get_forecast, get_climate",
    "  result: Error: Function failed. Exception: weather.example refused the connection",
    "run 2",
    "  offered: get_forecast, get_climate",
    "run 3",
    "  result: usually mild in Oslo",
    "These tools are unavailable: get_forecast (use get_climate instead). ",
]


def test_example_prints_the_expected_lines():
    expect_example("agent_framework_agent.py", EXPECTED)
