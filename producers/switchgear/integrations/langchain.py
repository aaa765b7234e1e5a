"""LangChain and LangGraph: ``create_agent(model, tools, middleware=[SwitchgearMiddleware(gear)])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from switchgear.classify.result import says_failed
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.integrations.tool_calls import RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import CircuitOf

_END: Final = "switchgear_ends_run"


class SwitchgearMiddleware(AgentMiddleware):
    """Guard every tool of an agent, decide which of them the model is offered, and tell it about outages.

    For a graph of your own: ``ToolNode(tools, wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call)``. Put it
    before ``ToolRetryMiddleware`` in the list, so that it sees a call and not its attempts.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: End the run after this many refused calls of one thread. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(self, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> None:
        super().__init__()
        self.calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
        self._tools: dict[str, Any] = {}
        """The tools of the last request to the model by name: those that can be called in place of another one."""

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make a tool call if the circuit permits it."""
        if request.tool is None:
            refused = self._refused_unknown(request)
            return self._unknown_ended(request, handler(request)) if refused is None else refused
        call = self.calls.begin(**self._asked(request))
        if isinstance(call, RefusedCall):
            return _refusal(request, call)
        with call:
            try:
                result = handler(self._for(request, call))
            except CircuitOpenError as refused:
                call.failed(refused)
                return self._refused_inside(request, refused)
            call.succeeded(_said(result))
            return result

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """:meth:`wrap_tool_call` for asynchronous runs."""
        if request.tool is None:
            refused = self._refused_unknown(request)
            return self._unknown_ended(request, await handler(request)) if refused is None else refused
        call = await self.calls.abegin(**self._asked(request))
        if isinstance(call, RefusedCall):
            return _refusal(request, call)
        with call:
            try:
                result = await handler(self._for(request, call))
            except CircuitOpenError as refused:
                call.failed(refused)
                return self._refused_inside(request, refused)
            call.succeeded(_said(result))
            return result

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Decide what the model sees; or end the run instead of asking it."""
        last = _last_message(request)
        return handler(self._offered(request)) if last is None else last

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """:meth:`wrap_model_call` for asynchronous runs."""
        last = _last_message(request)
        return await handler(self._offered(request)) if last is None else last

    def _refused_unknown(self, request: Any) -> ToolMessage | None:
        """Return a refusal in place of the framework's answer that there is no such tool, if the model asks again and again."""
        refused = self.calls.unknown(request.tool_call["name"], session_id=_thread(request))
        return None if refused is None else _refusal(request, refused)

    def _unknown_ended(self, request: Any, result: Any) -> Any:
        name, failed = request.tool_call["name"], says_failed(result)
        self.calls.unknown_ended(name, session_id=_thread(request), found=not failed)
        return result

    def _asked(self, request: Any) -> dict[str, Any]:
        return {
            "name": request.tool_call["name"],
            "given": request.tool_call["args"],
            "tool": request.tool,
            "others": tuple(self._tools),
            "session_id": _thread(request),
            "attempt_of": request.tool_call,
        }

    def _for(self, request: Any, call: StartedCall) -> Any:
        if not call.is_fallback:
            return request
        return request.override(tool=self._tools[call.name], tool_call={**request.tool_call, "name": call.name})

    def _refused_inside(self, request: Any, refused: CircuitOpenError) -> ToolMessage:
        """Return the refusal of a guard within the tool."""
        return _refusal(request, self.calls.refused(refused.rejection, name=request.tool_call["name"]))

    def _offered(self, request: Any) -> Any:
        self._tools = {tool.name: tool for tool in request.tools if not isinstance(tool, dict)}
        offered, messages = self.calls.turn_in(
            request.tools,
            request.messages,
            HumanMessage,
            session_id=_thread(request),
            conversation=_thread(request) or (request.messages[0].id if request.messages else None),
        )
        if len(offered) == len(request.tools) and len(messages) == len(request.messages):
            return request
        return request.override(tools=offered, messages=messages)


def _said(result: Any) -> Any:
    """Return what a call's result says of its end: of a list of messages and Commands the one that failed, else the result."""
    return next((each for each in result if says_failed(each)), result) if type(result) is list else result


def _thread(request: Any) -> str | None:
    """Return the id of the conversation, None without one."""
    config = getattr(request.runtime, "config", None) or {}
    thread = config.get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _last_message(request: Any) -> Any:
    """Return the message that ends the run if ``terminal_after`` refusals were reached: an answer without tool calls."""
    for message in reversed(request.messages):
        if not isinstance(message, ToolMessage):
            return None
        if message.additional_kwargs.get(_END):
            return AIMessage(f"The run ends: too many tool calls were refused. {message.text}")
    return None


def _refusal(request: Any, call: RefusedCall) -> ToolMessage:
    return ToolMessage(
        call.text,
        tool_call_id=request.tool_call["id"],
        name=request.tool_call["name"],
        status="error",
        artifact=call.tool_failure,
        additional_kwargs={_END: True} if call.ends_run else {},
    )
