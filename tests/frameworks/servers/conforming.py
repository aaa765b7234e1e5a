"""The server that the conformance suite of the MCP project asks for. Its argument is the port."""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.tools.base import ToolResult

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
IMAGE = types.ImageContent(type="image", data=PNG, mime_type="image/png")
server = FastMCP("conforming", version="1.0.0")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=resource)


@server.tool(description="A tool that the suite calls.")
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool(description="A tool that the suite calls.")
def test_image_content() -> ToolResult:
    return ToolResult([IMAGE])


@server.tool(description="A tool that the suite calls.")
def test_audio_content() -> ToolResult:
    return ToolResult([types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")])


@server.tool(description="A tool that the suite calls.")
def test_embedded_resource() -> ToolResult:
    return ToolResult([embedded("test://embedded-resource", "This is an embedded resource content.")])


@server.tool(description="A tool that the suite calls.")
def test_multiple_content_types() -> ToolResult:
    text = types.TextContent(type="text", text="Multiple content types test:")
    return ToolResult([text, IMAGE, embedded("test://mixed-content-resource", '{"test": "data"}', "application/json")])


@server.tool(description="A tool that the suite calls.")
async def test_tool_with_logging(ctx: Context) -> str:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
        await asyncio.sleep(0.05)
    return "logged"


@server.tool(description="A tool that the suite calls.")
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@server.tool(description="A tool that the suite calls.")
def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(description="A tool that the suite calls.")
async def test_sampling(prompt: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer: Any = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text}"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> ResourceResult:
    return ResourceResult([ResourceContent(base64.b64decode(PNG), mime_type="image/png")])


@server.resource("test://template/{id}/data", mime_type="application/json")
def of_template(id: str) -> dict[str, Any]:  # noqa: A002 - the suite's name
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.prompt(description="A prompt that the suite gets.")
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@server.prompt(description="A prompt that the suite gets.")
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(description="A prompt that the suite gets.")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's name
    return [Message(embedded(resourceUri, "Embedded resource content for testing.")), Message("Process it, please.")]


@server.prompt(description="A prompt that the suite gets.")
def test_prompt_with_image() -> list[Message]:
    return [Message(IMAGE), Message("Analyze the image above, please.")]


@server.completion
def complete(_ref: Any, argument: Any, _context: Any) -> list[str]:
    return [f"{argument.value}-1", f"{argument.value}-2"]


if __name__ == "__main__":
    server.run(transport="http", port=int(sys.argv[1]), show_banner=False)
