"""Record what the real instrumentation libraries export for tool calls, as OTLP protobuf files for the unit tests.

Each recording needs its own packages, so run it in an environment that has them, with the name and the folder of the samples::

    pip install openinference-instrumentation-langchain langchain opentelemetry-exporter-otlp-proto-common
    python tests/recordings/record_otlp.py openinference_langchain tests/unit/producers/gateway/otlp/samples

``RECORDINGS`` names the packages of each. No model is called: a scripted one asks for the tools. In every recording the tool
``get_forecast`` answers for Oslo, has no connection for Rome, and gets a wrong argument for Atlantis, if the library lets it.

The sample is an ``ExportTraceServiceRequest`` as the SDK's exporters send it, without stack traces, which have paths of a machine.
The attribute ``telemetry.recorded_with`` of its resource names the versions. ``record_otlp_vercel.mjs`` records the Vercel AI SDK.
``record_otlp_cli.py`` and
``record_otlp_gemini.mjs`` record the logs of coding agents.
"""

# ruff: noqa: PLC0415  # each recording has an environment of its own, with other packages
from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CITIES = ("Oslo", "Rome", "Atlantis")
CALLS = [("call_oslo", "Oslo"), ("call_rome", "Rome"), ("call_atlantis", "Atlantis")]


def get_forecast(city: str) -> str:
    """Return tomorrow's weather."""
    if city == "Rome":
        raise ConnectionError("connection refused")
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sun in {city}"


def openinference_langchain(provider: TracerProvider) -> None:
    """Three calls of a LangChain tool, each as a model's tool call."""
    from langchain_core.tools import tool
    from openinference.instrumentation import using_session
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)
    with using_session("session-7"):
        langchain_calls(tool(get_forecast))


def langchain_calls(tool: Any, config: Any = None) -> None:
    for call_id, city in CALLS:
        try:
            tool.invoke({"type": "tool_call", "id": call_id, "name": tool.name, "args": {"city": city}}, config)
        except (ConnectionError, ValueError):
            continue


def openinference_openai_agents(provider: TracerProvider) -> None:
    """A run of an OpenAI Agents agent with a scripted model. The SDK turns a tool's exception into text for the model."""
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    class Scripted(Model):
        asked = False

        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            if self.asked:
                text = ResponseOutputText(annotations=[], text="Done.", type="output_text")
                done = ResponseOutputMessage(
                    id="msg_1", content=[text], role="assistant", status="completed", type="message"
                )
                return ModelResponse(output=[done], usage=Usage(), response_id=None)
            self.asked = True
            calls = [
                ResponseFunctionToolCall(
                    call_id=call_id, name="get_forecast", arguments=f'{{"city": "{city}"}}', type="function_call"
                )
                for call_id, city in CALLS
            ]
            return ModelResponse(output=list(calls), usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    agent = Agent(name="planner", model=Scripted(), tools=[function_tool(get_forecast)])
    with using_session("session-7"):
        Runner.run_sync(agent, "What is the weather?")


def openllmetry_langchain(provider: TracerProvider) -> None:
    """Three calls of a LangChain tool, in a workflow of Traceloop's decorators."""
    from langchain_core.tools import tool
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=provider)
    langchain_calls(tool(get_forecast), {"metadata": {"session_id": "session-7"}})


def openllmetry_decorator(provider: TracerProvider) -> None:
    """Three calls of a function with Traceloop's ``@tool``."""
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool, workflow

    exporter = provider.recorded  # type: ignore[attr-defined]
    Traceloop.init(
        app_name="weather-agent",
        processor=SimpleSpanProcessor(exporter),
        exporter=None,
        telemetry_enabled=False,
        instruments=set(),
    )
    decorated = tool(name="get_forecast")(get_forecast)

    @workflow(name="plan")
    def plan() -> None:
        Traceloop.set_association_properties({"session_id": "session-7"})
        for _, city in CALLS:
            try:
                decorated(city)
            except (ConnectionError, ValueError):
                continue

    plan()


def langfuse_sdk(provider: TracerProvider) -> None:
    """Three calls of a function with Langfuse's ``@observe``, then the same tool through its LangChain handler."""
    from langchain_core.tools import tool
    from langfuse import Langfuse, observe, propagate_attributes
    from langfuse.langchain import CallbackHandler

    client = Langfuse(
        public_key="pk-recording",
        secret_key="sk-recording",
        base_url="http://127.0.0.1:9",
        tracer_provider=provider,
        span_exporter=provider.recorded,  # type: ignore[attr-defined]
    )
    observed = observe(name="get_forecast", as_type="tool")(get_forecast)

    @observe(name="plan", as_type="agent")
    def plan() -> None:
        with propagate_attributes(session_id="session-7", user_id="user-3"):
            for _, city in CALLS:
                try:
                    observed(city)
                except (ConnectionError, ValueError):
                    continue
            langchain_calls(tool(get_forecast), {"callbacks": [CallbackHandler(public_key="pk-recording")]})

    plan()
    client.flush()


def langsmith(provider: TracerProvider) -> None:
    """Three calls of a LangChain tool, traced by LangSmith, which sends spans only."""
    from langchain_core.tools import tool
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client

    client = Client(
        api_url="http://127.0.0.1:9", api_key="recording", otel_tracer_provider=provider, tracing_mode="otel"
    )
    metadata = {"thread_id": "session-7", "user_id": "user-3"}
    langchain_calls(tool(get_forecast), {"callbacks": [LangChainTracer(client=client)], "metadata": metadata})
    client.flush()


def google_adk(provider: TracerProvider) -> None:
    """Runs of a Google ADK agent with its own instrumentation. The tool returns its error for Atlantis, as the tutorials do."""
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    def forecast(city: str) -> dict[str, str]:
        """Return tomorrow's weather."""
        try:
            return {"forecast": get_forecast(city)}
        except ValueError as error:
            return {"error": str(error)}

    forecast.__name__ = "get_forecast"

    class Scripted(BaseLlm):
        city: str
        asked: bool = False

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            part = types.Part(text="Done.")
            if not self.asked:
                part = types.Part.from_function_call(name="get_forecast", args={"city": self.city})
            self.asked = True
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    async def runs() -> None:
        for city in CITIES:
            agent = LlmAgent(name="planner", model=Scripted(model="scripted", city=city), tools=[forecast])
            runner = InMemoryRunner(agent=agent, app_name="weather")
            session = await runner.session_service.create_session(
                app_name="weather", user_id="user-3", session_id="session-7"
            )
            question = types.UserContent("What is the weather?")
            try:
                async for _ in runner.run_async(user_id="user-3", session_id=session.id, new_message=question):
                    pass
            except ConnectionError:
                continue

    asyncio.run(runs())


def pydantic_ai(provider: TracerProvider) -> None:
    """Runs of a pydantic-ai agent with its own instrumentation. A tool's exception ends a run, so each call has its run."""
    from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def forecast(city: str) -> str:
        try:
            return get_forecast(city)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    for call_id, city in CALLS:

        def answer(messages: Any, info: Any, call_id: str = call_id, city: str = city) -> ModelResponse:
            if len(messages) > 1:
                return ModelResponse(parts=[TextPart("Done.")])
            return ModelResponse(parts=[ToolCallPart("get_forecast", {"city": city}, call_id)])

        settings = InstrumentationSettings(tracer_provider=provider)
        agent = Agent(FunctionModel(answer), name="planner", capabilities=[Instrumentation(settings)])
        agent.tool_plain(forecast, name="get_forecast")
        try:
            agent.run_sync("What is the weather?", conversation_id="session-7")
        except ConnectionError:
            continue


def agent_framework(provider: TracerProvider) -> None:
    """Three calls of a tool of Agent Framework with its own instrumentation."""
    from agent_framework import FunctionTool
    from agent_framework.observability import enable_instrumentation

    enable_instrumentation()
    tool = FunctionTool(name="get_forecast", description="Return tomorrow's weather.", func=get_forecast)

    async def calls() -> None:
        for call_id, city in CALLS:
            try:
                await tool.invoke(arguments={"city": city}, tool_call_id=call_id)
            except Exception as error:  # noqa: BLE001 - the framework wraps what the tool raises
                print(type(error).__name__)

    asyncio.run(calls())


def mcp_sdk(provider: TracerProvider) -> None:
    """Calls of a server of the MCP SDK by its client, over streams as between two processes."""
    import anyio
    from mcp import ClientSession
    from mcp.server.mcpserver import MCPServer
    from mcp.shared.memory import create_client_server_memory_streams

    server = MCPServer("weather")
    server.tool()(get_forecast)

    async def calls() -> None:
        async with (
            create_client_server_memory_streams() as (client_streams, server_streams),
            anyio.create_task_group() as tasks,
        ):
            low = server._lowlevel_server
            tasks.start_soon(low.run, *server_streams, low.create_initialization_options())
            async with ClientSession(*client_streams) as client:
                await client.initialize()
                for _, city in CALLS:
                    await client.call_tool("get_forecast", {"city": city})
            tasks.cancel_scope.cancel()

    anyio.run(calls)


def fastmcp(provider: TracerProvider) -> None:
    """Calls of a FastMCP server by FastMCP's client."""
    from fastmcp import Client, FastMCP
    from fastmcp.exceptions import ToolError

    server = FastMCP("weather")
    server.tool(get_forecast)

    async def calls() -> None:
        async with Client(server) as client:
            for _, city in CALLS:
                try:
                    await client.call_tool("get_forecast", {"city": city})
                except ToolError:
                    continue

    asyncio.run(calls())


def pydantic_ai_mcp(provider: TracerProvider) -> None:
    """A pydantic-ai agent that calls a FastMCP server: one call seen by the framework, the client and the server."""
    from fastmcp import FastMCP
    from pydantic_ai import Agent, InstrumentationSettings
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    server = FastMCP("weather")
    server.tool(get_forecast)

    def answer(messages: Any, info: Any) -> ModelResponse:
        asked = (len(messages) - 1) // 2
        if asked < len(CALLS):
            call_id, city = CALLS[asked]
            return ModelResponse(parts=[ToolCallPart("get_forecast", {"city": city}, call_id)])
        return ModelResponse(parts=[TextPart("Done.")])

    toolset = MCPToolset(server, max_retries=5)
    agent = Agent(
        FunctionModel(answer),
        name="planner",
        toolsets=[toolset],
        capabilities=[Instrumentation(InstrumentationSettings(tracer_provider=provider))],
    )
    agent.run_sync("What is the weather?", conversation_id="session-7")


RECORDINGS: dict[str, tuple[Callable[[TracerProvider], None], tuple[str, ...]]] = {
    "openinference_langchain": (openinference_langchain, ("openinference-instrumentation-langchain", "langchain-core")),
    "openinference_openai_agents": (
        openinference_openai_agents,
        ("openinference-instrumentation-openai-agents", "openai-agents"),
    ),
    "openllmetry_langchain": (openllmetry_langchain, ("opentelemetry-instrumentation-langchain", "langchain-core")),
    "openllmetry_decorator": (openllmetry_decorator, ("traceloop-sdk",)),
    "langfuse": (langfuse_sdk, ("langfuse", "langchain-core")),
    "langsmith": (langsmith, ("langsmith", "langchain-core")),
    "google_adk": (google_adk, ("google-adk",)),
    "pydantic_ai": (pydantic_ai, ("pydantic-ai-slim",)),
    "pydantic_ai_mcp": (pydantic_ai_mcp, ("pydantic-ai-slim", "fastmcp", "mcp")),
    "agent_framework": (agent_framework, ("agent-framework-core",)),
    "mcp_sdk": (mcp_sdk, ("mcp",)),
    "fastmcp": (fastmcp, ("fastmcp", "mcp")),
}
"""What to run, and the packages whose versions to name."""


def main(name: str, folder: str) -> None:
    record, packages = RECORDINGS[name]
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    resource = Resource({"service.name": "weather-agent", "telemetry.recorded_with": versions})
    provider, exporter = TracerProvider(resource=resource), InMemorySpanExporter()
    if name not in {"openllmetry_decorator", "langfuse"}:  # these add their own processor to the exporter
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.recorded = exporter  # type: ignore[attr-defined]
    if name != "openllmetry_decorator":
        trace.set_tracer_provider(provider)
    record(provider)
    request = encode_spans(exporter.get_finished_spans())
    for of_resource in request.resource_spans:
        if name == "openllmetry_decorator":
            del of_resource.resource.attributes[:]
            for key, value in resource.attributes.items():
                of_resource.resource.attributes.add(key=key).value.string_value = str(value)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                forget_the_machine(span)
    path = Path(folder) / f"{name}.pb"
    path.write_bytes(request.SerializeToString())
    print(path, path.stat().st_size, "bytes,", len(exporter.get_finished_spans()), "spans")


def forget_the_machine(span: Any) -> None:
    """Remove stack traces and what else tells of the machine."""
    span.status.message = span.status.message.partition("Traceback")[0]
    keep(span.attributes, without="langsmith.metadata.revision_id")
    for event in span.events:
        keep(event.attributes, without="exception.stacktrace")
        for each in event.attributes:  # LangSmith puts the stack trace into the message
            head, began, _ = each.value.string_value.partition("Traceback (most recent call last):")
            if began:
                each.value.string_value = head + began


def keep(attributes: Any, *, without: str) -> None:
    kept = [each for each in attributes if each.key != without]
    del attributes[:]
    attributes.extend(kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
