"""A program whose tool calls an instrumentation library exports over OpenTelemetry. It has no client of Switchgear.

    python instrumented.py LIBRARY http|grpc ENDPOINT TOOL PORT CALLS

It calls the tool, a TCP server on this machine that answers ``+`` or ``-`` to a byte, and ends when the exporter has sent all spans.
It runs in an environment of its own, with the packages of ``INSTRUMENTED`` in environments.py and without this repository on its path.
"""

# ruff: noqa: PLC0415  # each library needs its own packages
from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

Tool = Callable[[str], str]


def openinference(provider: TracerProvider, _exporter: SpanExporter, name: str, tool: Tool, calls: int) -> None:
    """Call a LangChain tool under OpenInference's instrumentation."""
    from langchain_core.tools import StructuredTool
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)
    made = StructuredTool.from_function(tool, name=name, description="Return the weather.")
    for number in range(calls):
        with contextlib.suppress(ConnectionError):
            made.invoke({"type": "tool_call", "id": f"call_{number}", "name": name, "args": {"city": "Rome"}})


def pydantic_ai(provider: TracerProvider, _exporter: SpanExporter, name: str, tool: Tool, calls: int) -> None:
    """Let pydantic-ai's agents call a tool, with its own instrumentation."""
    from pydantic_ai import Agent, InstrumentationSettings
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, _info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(name, {"city": "Rome"})])

    settings = InstrumentationSettings(tracer_provider=provider)
    agent = Agent(FunctionModel(answer), name="planner", capabilities=[Instrumentation(settings)])
    agent.tool_plain(tool, name=name)
    for _ in range(calls):
        with contextlib.suppress(ConnectionError):
            agent.run_sync("What is the weather?")


def langfuse(provider: TracerProvider, exporter: SpanExporter, name: str, tool: Tool, calls: int) -> None:
    """Call a function with Langfuse's decorator. Its SDK sends with the exporter that it is given."""
    from langfuse import Langfuse, observe

    client = Langfuse(
        public_key="pk-test",
        secret_key="sk-test",
        base_url="http://127.0.0.1:9",
        tracer_provider=provider,
        span_exporter=exporter,
    )
    observed = observe(name=name, as_type="tool")(tool)
    for _ in range(calls):
        with contextlib.suppress(ConnectionError):
            observed("Rome")
    client.flush()


LIBRARIES = {"openinference": openinference, "pydantic_ai": pydantic_ai, "langfuse": langfuse}


def exporter_of(way: str, endpoint: str) -> SpanExporter:
    """Return the SDK's exporter."""
    if way == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc(endpoint=endpoint, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    return Http(endpoint=f"{endpoint}/v1/traces")


def main(library: str, way: str, endpoint: str, name: str, port: str, calls: str) -> None:
    """Make the calls and send their spans."""
    connection = socket.create_connection(("127.0.0.1", int(port)))

    def tool(city: str) -> str:
        connection.sendall(b"c")
        if connection.recv(1) != b"+":
            raise ConnectionError("connection refused")
        return f"sun in {city}"

    resource = Resource({"service.name": library, "service.instance.id": str(os.getpid())})
    provider, exporter = TracerProvider(resource=resource), exporter_of(way, endpoint)
    if library != "langfuse":
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    LIBRARIES[library](provider, exporter, name, tool, int(calls))
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
