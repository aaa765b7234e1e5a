"""Microsoft Agent Framework: ``Agent(client, tools=tools, middleware=guard_middleware(gear))``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    ChatMiddleware,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareTermination,
)
from agent_framework.exceptions import MiddlewareException, ToolException

from switchgear.classify import Classification
from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.prompts import CircuitOf


def guard_middleware(
    gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None
) -> list[FunctionMiddleware | ChatMiddleware]:
    """Return the middleware that guards every tool, decides which of them the model is offered, and tells it about outages.

    Give the list to an agent, to one of its runs, or to a chat client. With middleware of your own:
    ``middleware=[*guard_middleware(gear), mine]``.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: End the run after this many refused calls of one agent session. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    # Not a MiddlewareBundle, which is experimental (agent-framework-core 1.23).
    calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
    return [_GuardedCalls(calls), _OfferedTools(calls)]


class _GuardedCalls(FunctionMiddleware):
    """Makes a tool call if the circuit permits it."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        name, arguments = context.function.name, context.arguments
        others = _others(context.tools)
        call = await self._calls.abegin(
            name,
            given=arguments if isinstance(arguments, Mapping) else arguments.model_dump(),
            tool=context.function,
            others=tuple(others),
            session_id=None if context.session is None else context.session.session_id,
            attempt_of=context,  # a middleware that retries calls with the same context
        )
        if isinstance(call, RefusedCall):
            context.result = _refusal(call)
            if call.ends_run:
                raise MiddlewareTermination(call.text)
            return
        with call:
            try:
                if call.is_fallback:
                    context.result = await _invoked(others[call.name], context)
                else:
                    await call_next()
            except CircuitOpenError as refused:
                call.failed(refused)
                context.result = _refusal(self._calls.refused(refused.rejection, name=name))
            except MiddlewareException as stopped:  # by a middleware after this one: it says nothing about the tool
                call.ignored(stopped)
                raise
            except ToolException as error:
                call.failed(error, failure=self._class_in_text(call.circuit, error))
                raise
            else:
                if getattr(context.result, "type", None) == "function_approval_request":
                    call.ignored()
                else:
                    call.succeeded(context.result)

    def _class_in_text(self, circuit: str, error: ToolException) -> Classification | None:
        """Return the class that the text reports: a failed result of an MCP server becomes such an exception."""
        gear = self._calls.gear
        if gear.classify_error(circuit, error).error_class != "tool":
            return None
        return gear.classify_result(circuit, {"content": str(error), "is_error": True})


class _OfferedTools(ChatMiddleware):
    """Decides what the model sees. The function loop asks it before each request."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        options = dict(context.options or {})
        tools = options.get("tools")
        if isinstance(tools, Sequence) and tools and context.messages:
            session = getattr(getattr(context, "session", None), "session_id", None)  # 1.10 has no session here
            options["tools"], context.messages = self._calls.turn_in(
                tools,
                context.messages,
                _message,
                session_id=session,
                conversation=session or context.messages[0].text,
                anchor=_said,
            )
            if not options["tools"]:
                options.pop("tool_choice", None)  # APIs reject it without tools
            context.options = options
        await call_next()


def _said(message: Message) -> tuple[str, str]:
    return str(message.role), message.text


def _message(text: str) -> Message:
    return Message("user", [text])


def _others(tools: Sequence[Any] | None) -> dict[str, FunctionTool]:
    """Return the tools that may be called in place of another one: those that run here and need no approval."""
    return {
        tool.name: tool
        for tool in tools or ()
        if isinstance(tool, FunctionTool) and not tool.declaration_only and tool.approval_mode != "always_require"
    }


async def _invoked(tool: FunctionTool, context: FunctionInvocationContext) -> Any:
    own = FunctionInvocationContext(
        function=tool,
        arguments=context.arguments,
        session=context.session,
        kwargs=context.kwargs,
        tools=context.tools,
    )
    return await tool.invoke(arguments=context.arguments, context=own, tool_call_id=context.metadata.get("call_id"))


def _refusal(call: RefusedCall) -> list[Content]:
    return [Content.from_text(call.text, additional_properties={META_KEY: call.tool_failure})]
