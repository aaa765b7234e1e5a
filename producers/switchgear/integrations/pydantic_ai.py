"""pydantic-ai: ``Agent(model, tools=tools, capabilities=[SwitchgearCapability(gear)])``."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry, SkipToolExecution, ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.settings import ToolOrOutput

from switchgear.classify import Classification
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.tool_function import guarded_inside
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.prompts import CircuitOf


class SwitchgearCapability(AbstractCapability[Any]):
    """Guard every tool of an agent, decide which of them the model is offered, and tell it about outages.

    It guards function tools and the tools of all toolsets, MCP servers included. Put it after capabilities that repeat a call,
    so that it sees each attempt. The attempts count once.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: End the run with ``UsageLimitExceeded`` after this many refused calls of one conversation. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(self, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> None:
        self.calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Make a tool call if the circuit permits it."""
        session = ctx.conversation_id or ctx.run_id
        started = await self.calls.abegin(
            tool_def.name,
            given=args,
            tool=_schema(ctx, tool_def.name),
            others=tuple(_stand_ins(ctx)),
            session_id=session,
            attempt_of=call,
        )
        if isinstance(started, RefusedCall):
            raise _refusal(started)
        with started:
            try:
                result = await (_call(ctx, started.name, call, args) if started.is_fallback else handler(args))
            except SkipToolExecution:  # another capability answers instead of the tool
                started.released()
                raise
            except CircuitOpenError as refused:
                started.failed(refused)
                raise _refusal(
                    self.calls.refused(refused.rejection, name=tool_def.name, session_id=session)
                ) from refused
            except Exception as error:
                started.failed(error, failure=self._class_of(error, started.circuit))
                raise
            started.succeeded(result)
            return result

    def _class_of(self, error: Exception, circuit: str) -> Classification | None:
        """Return the class of a failed result that only its text tells, None for every other exception."""
        found: BaseException | None = error
        while found is not None and not isinstance(found, (ModelRetry, ToolFailed)):
            found = found.__cause__
        if found is None:
            return None
        if isinstance(found, ModelRetry) and isinstance(found.__context__, TimeoutError):
            return Classification("timeout")  # the tool's own time limit
        return self.calls.gear.classify_text(circuit, str(found))

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Decide what the model sees.

        The framework's ``prepare_tools`` would also forget the tools that it leaves out. A model that calls one of them gets
        a refusal with reasons here, and "Unknown tool name" there.
        """
        parameters = request_context.model_request_parameters
        tools = parameters.function_tools
        named = [SimpleNamespace(name=each.name, function=_function(ctx, each.name)) for each in tools]
        offered, messages = self.calls.turn_in(
            named, request_context.messages, _message, session_id=ctx.conversation_id or ctx.run_id
        )
        left = {each.name for each in offered}
        request_context = dataclasses.replace(request_context, messages=messages)
        # Providers reject a request that demands a tool which isn't in the list.
        choice = (request_context.model_settings or {}).get("tool_choice")
        if not left and choice == "required":
            return request_context
        left.update(choice if isinstance(choice, list) else getattr(choice, "function_tools", ()))
        kept = [each for each in tools if each.name in left]
        if (
            len(kept) < len(tools)
            and choice in (None, "auto")
            and getattr(request_context.model, "system", "") == "openai"
        ):
            # OpenAI's allowed_tools: the list stays in the prompt's cache, and the model may call some of it.
            allowed = ToolOrOutput([each.name for each in kept])
            settings = {**(request_context.model_settings or {}), "tool_choice": allowed}
            return dataclasses.replace(request_context, model_settings=settings)
        parameters = dataclasses.replace(parameters, function_tools=kept)
        return dataclasses.replace(request_context, model_request_parameters=parameters)


def _refusal(call: RefusedCall) -> Any:
    """Return what the model reads as a failed result, without an invitation to try again, or what ends the run."""
    if call.ends_run:
        return UsageLimitExceeded(f"The run ends: too many tool calls were refused. {call.text}")
    return ToolFailed(call.text)


def _message(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def _stand_ins(ctx: Any) -> Iterator[str]:
    """Return the tools that can be called in place of another one: they need no approval, and their function isn't guarded."""
    for name, tool in ctx.tool_manager.tools.items():
        if tool.tool_def.kind == "function" and guarded_inside(_schema(ctx, name)) is None:
            yield name


async def _call(ctx: Any, name: str, call: Any, args: Any) -> Any:
    """Call another tool of the agent with the same arguments. Its permission is given already."""
    manager = ctx.tool_manager
    other = ToolCallPart(name, args, call.tool_call_id)
    checked = await manager.validate_tool_call(other, wrap_validation_errors=False)
    if getattr(checked, "deferral", None) is not None:
        raise checked.deferral
    return await manager.toolset.call_tool(name, checked.validated_args, checked.ctx, checked.tool)


def _schema(ctx: Any, name: str) -> Any:
    """Return pydantic-ai's description of a tool's function, which has it as ``function``. None for the tools of servers."""
    tool = ctx.tool_manager.tools.get(name)
    while (inner := getattr(tool, "source_tool", None)) is not None:  # private, pydantic-ai 2.33 to 2.68
        tool = inner
    return getattr(getattr(tool, "call_func", None), "__self__", None)


def _function(ctx: Any, name: str) -> Any:
    return getattr(_schema(ctx, name), "function", None)
