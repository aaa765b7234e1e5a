"""OpenAI Agents SDK: ``SwitchgearRunner(gear).run(agent, "…")`` in place of ``Runner.run(agent, "…")``."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, Self
from uuid import uuid4

from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    RunConfig,
    Runner,
    ToolsToFinalOutputResult,
    ToolTimeoutError,
    UserError,
)
from agents.agent_tool_state import (
    get_agent_tool_state_scope,
    peek_agent_tool_run_result,
)  # not documented, 0.22 to 0.24
from agents.tool_context import ToolContext

from switchgear.classify import Classification
from switchgear.classify.by_code import class_of_digits
from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.tool_function import guarded_inside
from switchgear.integrations.tool_calls import RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import CircuitOf

Invoke = Callable[[Any, str], Awaitable[Any]]

_MARK: Final = "_switchgear"
"""The attribute that holds the original: of a guarded function, of the class of a guarded agent, of a guarded handoff."""
_INNERMOST: Final = "_invoke_tool_impl"  # private, openai-agents 0.22 to 0.24
_HTTP_ERROR: Final = re.compile(
    r"Failed to call tool '[^']{1,300}' on MCP server '[^']{1,300}': HTTP error ([345][0-9]{2})"
)
"""What the SDK itself says, word for word, when a server's HTTP endpoint answered with an error."""
_session: ContextVar[str | None] = ContextVar("switchgear_openai_session", default=None)
_server_results: ContextVar[list[Any] | None] = ContextVar("switchgear_openai_results", default=None)
"""Where to put the result of an MCP server, because the SDK's tool keeps only its text."""


class SwitchgearRunner:
    """Run agents like the SDK's ``Runner``, with every tool guarded, and the model told about outages.

    It runs guarded copies of your agents: their function tools, the tools of their MCP servers, and the agents that they hand
    off to. Your own agents stay as they are. An agent that is a tool is guarded as one tool; for the tools within it, write
    ``runner.guarded(agent).as_tool(…)``.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: End the run after this many refused calls of one session (of one run, if it has no session). The final
            output is then a text that says so. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(self, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> None:
        self.calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
        self._may_end = terminal_after is not None

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent. The arguments and the result are those of ``Runner.run``."""
        options["run_config"] = self._config(options.get("run_config"))
        with _session_of(options):
            return await Runner.run(self.guarded(starting_agent), input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        """Run an agent outside of an event loop. The arguments and the result are those of ``Runner.run_sync``."""
        options["run_config"] = self._config(options.get("run_config"))
        with _session_of(options):
            return Runner.run_sync(self.guarded(starting_agent), input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        """Run an agent and stream its events. The arguments and the result are those of ``Runner.run_streamed``."""
        options["run_config"] = self._config(options.get("run_config"))
        with _session_of(options):  # the task that it starts keeps the context
            return Runner.run_streamed(self.guarded(starting_agent), input, **options)

    def guarded(self, agent: Any) -> Any:
        """Return a copy of ``agent`` whose tools are guarded.

        The methods that run an agent call this. Call it yourself for an agent that you turn into a tool, and for
        ``RunState.from_json(runner.guarded(agent), …)``, because a resumed run uses the agent that you give there.
        """
        return self._guarded(agent, {})

    # -- copies -------------------------------------------------------------------------------------------------------

    def _guarded(self, agent: Any, done: dict[int, Any]) -> Any:
        """Copy an agent and those that it hands off to, which may hand off to it."""
        if id(agent) in done:
            return done[id(agent)]
        stand_ins: dict[str, Any] = {}
        changes: dict[str, Any] = {"tools": self._tools(agent.tools, stand_ins)}
        if isinstance(agent.model, Model) and not isinstance(agent.model, _OfferingModel):
            changes |= {"model": _OfferingModel(agent.model, self.calls), "model_settings": agent.model_settings}
        if self._may_end and not isinstance(agent.tool_use_behavior, _EndAfterRefusals):
            changes["tool_use_behavior"] = _EndAfterRefusals(agent.tool_use_behavior)
        if agent.mcp_servers:
            servers = [each if isinstance(each, _NotingServer) else _NotingServer(each) for each in agent.mcp_servers]
            made = self._with_mcp_tools(agent, stand_ins, **changes, mcp_servers=servers)
        else:
            made = agent.clone(**changes)
        done[id(agent)] = done[id(made)] = made
        made.handoffs = [self._handoff(each, done) for each in agent.handoffs]
        return made

    def _with_mcp_tools(self, agent: Any, stand_ins: dict[str, Any], **changes: Any) -> Any:
        """Copy an agent as a subclass, because it asks its MCP servers for their tools in each turn."""
        kind = getattr(type(agent), _MARK, type(agent))

        async def get_mcp_tools(copied: Any, run_context: Any) -> list[Any]:
            return self._tools(await kind.get_mcp_tools(copied, run_context), stand_ins)

        guarded_kind = type(kind.__name__, (kind,), {"get_mcp_tools": get_mcp_tools, _MARK: kind})
        values = {each.name: getattr(agent, each.name) for each in dataclasses.fields(agent) if each.init}
        return guarded_kind(**(values | changes))

    def _handoff(self, handoff: Any, done: dict[int, Any]) -> Any:
        if isinstance(handoff, Agent):
            return self._guarded(handoff, done)
        if not isinstance(handoff, Handoff) or getattr(handoff, _MARK, False):
            return handoff
        made = copy.copy(handoff)

        async def on_invoke_handoff(ctx: Any, arguments: str) -> Any:
            return self._guarded(await handoff.on_invoke_handoff(ctx, arguments), done)

        made.on_invoke_handoff = on_invoke_handoff
        setattr(made, _MARK, True)
        return made

    def _tools(self, tools: list[Any], stand_ins: dict[str, Any]) -> list[Any]:
        """Return guarded copies of function tools, and the other tools as they are: OpenAI runs those."""
        made = [self._tool(each, stand_ins) if isinstance(each, FunctionTool) else each for each in tools]
        stand_ins.update({each.name: each for each in made if isinstance(each, FunctionTool) and _can_stand_in(each)})
        return made

    def _tool(self, tool: Any, stand_ins: dict[str, Any]) -> Any:
        invoke = _innermost(tool)
        if hasattr(invoke, _MARK):
            return tool

        @functools.wraps(invoke)  # with the SDK's marks, and the annotations that it looks at
        async def guarded(ctx: Any, arguments: str) -> Any:
            return await self._invoke(tool, invoke, stand_ins, ctx, arguments)

        setattr(guarded, _MARK, invoke)
        made = copy.copy(tool)
        if hasattr(made.on_invoke_tool, _INNERMOST):
            setattr(made.on_invoke_tool, _INNERMOST, guarded)  # the copy has an invoker of its own
        else:
            made.on_invoke_tool = guarded
        made.custom_data_extractor = _data_extractor(tool.custom_data_extractor)
        return made

    # -- a call -------------------------------------------------------------------------------------------------------

    async def _invoke(self, tool: Any, invoke: Invoke, stand_ins: dict[str, Any], ctx: Any, arguments: str) -> Any:
        call = await self.calls.abegin(
            tool.name, given=_given(arguments), tool=tool, others=tuple(stand_ins), session_id=_session.get()
        )
        if isinstance(call, RefusedCall):
            return _refused(tool, call)
        if call.is_fallback:
            invoke, ctx = getattr(_innermost(stand_ins[call.name]), _MARK), _context_of(call.name, ctx, arguments)
        results: list[Any] = []
        token = _server_results.set(results)
        started = asyncio.get_running_loop().time()
        with call:
            try:
                result = await invoke(ctx, arguments)
            except asyncio.CancelledError as error:
                _report_cancelled(call, error, tool, asyncio.get_running_loop().time() - started)
                raise
            except Exception as error:
                cause = _cause(error)
                call.failed(cause, failure=self._class_of(cause, call.circuit))
                if isinstance(cause, CircuitOpenError):
                    return _refused(
                        tool, self.calls.refused(cause.rejection, name=tool.name, session_id=_session.get())
                    )
                raise
            finally:
                _server_results.reset(token)
            if _is_paused(ctx):
                call.ignored()
            call.succeeded(results[-1] if results else result)
            return result

    def _class_of(self, error: BaseException, circuit: str) -> Classification | None:
        """Return the class of an MCP server's exception that only its text tells, None for every other exception."""
        if not isinstance(error, UserError):
            return None
        text = str(error)
        if "missing required parameters" in text:
            return Classification("invalid_input")
        answered = _HTTP_ERROR.fullmatch(text)
        status = None if answered is None else class_of_digits(answered[1])
        return self.calls.gear.classify_text(circuit, text) if status is None else Classification(status)

    def _config(self, given: Any) -> Any:
        """Return the run's configuration with models that see what Switchgear decides."""
        config = RunConfig(**given) if isinstance(given, dict) else given or RunConfig()
        changes: dict[str, Any] = {
            "model_provider": _OfferingProvider(config.model_provider, self.calls),
            "tool_error_formatter": _error_formatter(config.tool_error_formatter),
        }
        if isinstance(config.model, Model):
            changes["model"] = _OfferingModel(config.model, self.calls)
        return dataclasses.replace(config, **changes)


class _OfferingModel(Model):
    """A model that is offered the tools that Switchgear decides, and is told about outages.

    The SDK itself keeps all tools. It ends a run whose model calls a tool that it doesn't know.
    """

    def __init__(self, model: Any, calls: ToolCalls) -> None:
        self._model = model
        self._calls = calls

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: list[Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Ask the model."""
        input, tools = self._seen(input, model_settings, tools)  # noqa: A001
        return await self._model.get_response(system_instructions, input, model_settings, tools, *args, **kwargs)

    def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: list[Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Ask the model and stream its answer."""
        input, tools = self._seen(input, model_settings, tools)  # noqa: A001
        return self._model.stream_response(system_instructions, input, model_settings, tools, *args, **kwargs)

    def get_retry_advice(self, request: Any) -> Any:
        """Return the model's own advice."""
        return self._model.get_retry_advice(request)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:  # private, openai-agents 0.22 to 0.24
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)  # what the SDK looks for in some models

    def _seen(self, given: Any, settings: Any, tools: list[Any]) -> tuple[Any, list[Any]]:
        """Return the input with the messages about outages, and the tools to offer."""
        ours = [each for each in tools if isinstance(each, FunctionTool)]
        history = [_message(given)] if isinstance(given, str) else given
        offered, seen = self._calls.turn_in(ours, history, _message, session_id=_session.get())
        left = {id(each) for each in offered}
        given = given if len(seen) == len(history) else seen
        # The API rejects a request that demands a tool which isn't in the list.
        demanded = settings.tool_choice
        if not left and demanded == "required":
            return given, tools
        hidden = {
            id(each) for each in ours if id(each) not in left and each.name != demanded and not each.defer_loading
        }
        return given, [each for each in tools if id(each) not in hidden]


def _message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


class _OfferingProvider(ModelProvider):
    def __init__(self, provider: Any, calls: ToolCalls) -> None:
        self._provider = provider
        self._calls = calls

    def get_model(self, model_name: str | None) -> Any:
        """Return the provider's model, which is offered only some of the tools."""
        return _OfferingModel(self._provider.get_model(model_name), self._calls)

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


class _NotingServer:
    """An MCP server that notes its results."""

    def __init__(self, server: Any) -> None:
        self._server = server

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        result = await self._server.call_tool(*args, **kwargs)
        results = _server_results.get()
        if results is not None:
            results.append(result)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


class _Refusal(str):
    """The text of a refusal, with what the model doesn't read. Copies, which the SDK keeps in its history, are plain texts."""

    __slots__ = ("ends_run", "tool_failure")
    ends_run: bool
    tool_failure: dict[str, Any]

    def __new__(cls, call: RefusedCall) -> Self:
        made = super().__new__(cls, call.text)
        made.ends_run, made.tool_failure = call.ends_run, call.tool_failure
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class _EndAfterRefusals:
    """An agent's ``tool_use_behavior`` that ends the run after a refusal that says so, and else does what the agent's own does."""

    def __init__(self, own: Any) -> None:
        self._own = own

    async def __call__(self, ctx: Any, results: list[Any]) -> Any:
        for each in results:
            if isinstance(each.output, _Refusal) and each.output.ends_run:
                text = f"The run ends: too many tool calls were refused. {each.output}"
                return ToolsToFinalOutputResult(is_final_output=True, final_output=text)
        if callable(self._own):
            found = self._own(ctx, results)
            return await found if inspect.isawaitable(found) else found
        names = self._own.get("stop_at_tool_names", []) if isinstance(self._own, dict) else []
        for each in results:
            if self._own == "stop_on_first_tool" or each.tool.name in names or each.tool.qualified_name in names:
                return ToolsToFinalOutputResult(is_final_output=True, final_output=each.output)
        return ToolsToFinalOutputResult(is_final_output=False, final_output=None)


def _refused(tool: Any, call: RefusedCall) -> _Refusal:
    """Return what the model reads. A tool with a schema for its results can only fail: the SDK accepts no other text."""
    if tool.output_json_schema is not None:
        raise CircuitOpenError(call.rejection)
    return _Refusal(call)


def _error_formatter(own: Any) -> Callable[[Any], Awaitable[Any]]:
    async def formatted(failed: Any) -> Any:
        error = getattr(failed, "error", None)  # new in openai-agents 0.24
        if isinstance(error, CircuitOpenError):
            return error.text
        found = None if own is None else own(failed)
        return await found if inspect.isawaitable(found) else found

    return formatted


def _data_extractor(own: Any) -> Callable[[Any], Awaitable[Any]]:
    async def extract(data: Any) -> Any:
        if isinstance(data.output, _Refusal):
            return {META_KEY: data.output.tool_failure}
        found = None if own is None else own(data)
        return await found if inspect.isawaitable(found) else found

    return extract


@contextlib.contextmanager
def _session_of(options: dict[str, Any]) -> Iterator[None]:
    """Give the calls of a run the SDK's name for the conversation. A run without one gets an id of its own."""
    session = getattr(options.get("session"), "session_id", None)
    token = _session.set(session or options.get("conversation_id") or options["run_config"].group_id or uuid4().hex)
    try:
        yield
    finally:
        _session.reset(token)


def _can_stand_in(tool: Any) -> bool:
    """Return whether a tool may be called in place of another one: the SDK checks nothing for it then."""
    return (
        tool.is_enabled is True
        and tool.needs_approval is False
        and not (tool.tool_input_guardrails or tool.tool_output_guardrails)
        and guarded_inside(tool) is None
    )


def _innermost(tool: Any) -> Any:
    """Return the function of a tool that raises its exceptions. Around it, the SDK turns them into texts."""
    return getattr(tool.on_invoke_tool, _INNERMOST, tool.on_invoke_tool)


def _context_of(name: str, ctx: Any, arguments: str) -> Any:
    """Return the context for a call of another tool."""
    if not isinstance(ctx, ToolContext):
        return ctx
    return ToolContext.from_agent_context(
        ctx, ctx.tool_call_id, tool_call=ctx.tool_call, tool_name=name, tool_arguments=arguments
    )


def _is_paused(ctx: Any) -> bool:
    """Return whether the call was of an agent whose own tool waits for an approval now."""
    tool_call = getattr(ctx, "tool_call", None)
    result = tool_call and peek_agent_tool_run_result(tool_call, scope_id=get_agent_tool_state_scope(ctx))
    return bool(getattr(result, "interruptions", None))


def _report_cancelled(call: StartedCall, error: BaseException, tool: Any, seconds: float) -> None:
    """Report a cancelled call. The SDK enforces a tool's own time limit by cancelling it."""
    limit = tool.timeout_seconds
    if limit is not None and seconds >= 0.9 * limit:  # the SDK's clock starts earlier than ours
        call.failed(ToolTimeoutError(tool_name=tool.name, timeout_seconds=limit))
    else:
        call.failed(error)


def _cause(error: Exception) -> BaseException:
    """Return the exception of an MCP server, which the SDK wraps into one of its base class."""
    return error.__cause__ if type(error) is AgentsException and error.__cause__ is not None else error


def _given(arguments: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        found = json.loads(arguments or "{}")
        if isinstance(found, dict):
            return found
    return None
