"""Google ADK: ``App(name="weather", root_agent=agent, plugins=[SwitchgearPlugin(gear)])``."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.models import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from switchgear.classify import Classification, classify
from switchgear.classify.by_text import caught_error
from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.integrations.tool_calls import OpenCalls, RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import CircuitOf
from switchgear.runtime.bounded_dict import BoundedDict

MOST_RUNS: Final = 1_000
"""The most runs to remember. A run is forgotten when it ends; the oldest goes first if its end never comes."""

_CONTROL: Final = frozenset({"exit_loop", "finish_task", "set_model_response", "transfer_to_agent"})
"""The framework's own tools that steer the run. They call nothing that can fail."""
_REFLECTED: Final = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"
"""How ReflectAndRetryToolPlugin marks its answers, in ``response_type``."""


@dataclass(slots=True)
class _Invocation:
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The tools that each agent offered last, by name. They can be called in place of another one."""
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Refusals as structured data, by the id of the call, until the event with the result comes."""
    last_refusal: str = ""
    """The refusal that ends the run."""


class SwitchgearPlugin(BasePlugin):
    """Guard every tool of all agents of an app, decide which of them the models are offered, and tell them about outages.

    Make it the first plugin, because the first answer of a plugin hides a call's end from the plugins after it.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: End the run after this many refused calls of one session. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(self, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> None:
        super().__init__("switchgear")
        self.calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
        self._open = OpenCalls()
        self._runs = BoundedDict[str, _Invocation](MOST_RUNS)
        self._lock = threading.Lock()

    # -- the model's requests -----------------------------------------------------------------------------------------

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Decide what the model sees. End the run if it had too many refusals."""
        run = self._run(callback_context)
        if run.last_refusal:
            text = f"The run ends: too many tool calls were refused. {run.last_refusal}"
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))
        tools = {name: tool for name, tool in llm_request.tools_dict.items() if name not in _CONTROL}
        run.tools[callback_context.agent_name] = tools
        offered, llm_request.contents = self.calls.turn_in(
            list(tools.values()),
            llm_request.contents,
            _message,
            session_id=callback_context.session.id,
            conversation=f"{callback_context.session.id}\0{callback_context.agent_name}",
        )
        kept = {id(tool) for tool in offered}
        left_out = {name for name, tool in tools.items() if id(tool) not in kept}
        if left_out:
            llm_request.config.tools = _without(llm_request.config.tools, left_out)
        return None

    # -- the calls ----------------------------------------------------------------------------------------------------

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Let a tool call pass if the circuit permits it. Answer with the refusal, or with the fallback's result, if not."""
        if not _is_guarded(tool):
            return None
        run = self._run(tool_context)
        tools = run.tools.get(tool_context.agent_name, {})
        call = await self.calls.abegin(
            tool.name,
            given=tool_args,
            tool=tool,
            others=[name for name, other in tools.items() if _may_stand_in(other)],
            session_id=tool_context.session.id,
            user_id=tool_context.user_id,
        )
        if isinstance(call, RefusedCall):
            return self._refusal(tool_context, call)
        if call.is_fallback:
            return await self._fallback(call, tools[call.name], tool_args, tool_context)
        key = _key(tool_context)
        self._open.put(key, call)
        task = asyncio.current_task()
        if task is not None:  # the one that makes this call; it may end without the two hooks below
            task.add_done_callback(lambda _: self._abandoned(key))
        return None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> dict[str, Any] | None:
        """Report a call that returned."""
        del tool_args
        call = self._open.take(_key(tool_context))
        if call is not None:
            self._returned(call, tool, tool_context, result)
        return None

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> dict[str, Any] | None:
        """Report a call that raised. The refusal of a guard within the tool becomes the result."""
        del tool_args
        call = self._open.take(_key(tool_context))
        if call is not None:
            call.failed(error)  # a CancelledError is its caller's, or comes because a parallel call failed
        if isinstance(error, CircuitOpenError):
            return self._refused_inside(tool.name, tool_context, error)
        return None

    async def _fallback(
        self, call: StartedCall, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any]:
        with call:
            try:
                result = await tool.run_async(args=tool_args, tool_context=tool_context)
            except CircuitOpenError as refused:
                call.failed(refused)
                return self._refused_inside(tool.name, tool_context, refused)
            except Exception as error:  # noqa: BLE001 - raised from here, it would end the run as this plugin's error
                call.failed(error)
                return {"error": f"{tool.name} failed: {error}"}
            self._returned(call, tool, tool_context, result)
        return result if isinstance(result, dict) else {"result": result}

    def _returned(self, call: StartedCall, tool: Any, tool_context: Any, result: Any) -> None:
        if _awaits_person(tool_context):
            call.released()
            return
        if not result and _answers_later(tool):
            call.ignored()
            return
        text = None if self.calls.gear.options.classify_result else _error_text(result)
        if text is None:
            call.succeeded(result)
        elif text.startswith(f"Invoking `{tool.name}()` failed"):  # FunctionTool's words for bad arguments
            call.failed(text, failure="invalid_input")
        else:
            gear = self.calls.gear
            found = _caught(tool, text) or gear.classify_result(call.circuit, {"content": text, "isError": True})
            if found == Classification("tool") and result.get("response_type") == _REFLECTED:
                found = _reflected(result.get("error_type"))
            call.failed(text, failure=found, usage=gear.usage_of(call.circuit, result))

    def _abandoned(self, key: tuple[Any, Any]) -> None:
        """Ignore a call without an end: it was interrupted, or another plugin's answer hid it."""
        call = self._open.take(key)
        if call is not None:
            call.ignored()

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _refusal(self, tool_context: Any, call: RefusedCall) -> dict[str, Any]:
        run = self._run(tool_context)
        run.failures[tool_context.function_call_id] = call.tool_failure
        if call.ends_run:
            run.last_refusal = call.text
        return {"error": call.text}

    def _refused_inside(self, name: str, tool_context: Any, refused: CircuitOpenError) -> dict[str, Any]:
        """Return the refusal of a guard within the tool."""
        session = tool_context.session.id
        return self._refusal(tool_context, self.calls.refused(refused.rejection, name=name, session_id=session))

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Put the structured data of refusals into the event's metadata, which the model doesn't see."""
        run = self._runs.get(invocation_context.invocation_id)
        if run is None or not run.failures:
            return
        answered = {each.id for each in event.get_function_responses()}
        found = {call_id: run.failures.pop(call_id) for call_id in answered if call_id in run.failures}
        if found:
            event.custom_metadata = {**(event.custom_metadata or {}), META_KEY: found}

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget a run that ended."""
        self._forget(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Forget a run that failed."""
        del error
        self._forget(invocation_context)

    def _run(self, context: Any) -> _Invocation:
        with self._lock:
            return self._runs.setdefault(context.invocation_id, _Invocation())

    def _forget(self, invocation_context: Any) -> None:
        with self._lock:
            self._runs.pop(invocation_context.invocation_id, None)


def _message(text: str) -> Any:
    return types.Content(role="user", parts=[types.Part(text=text)])


def _key(tool_context: Any) -> tuple[Any, Any]:
    return tool_context.invocation_id, tool_context.function_call_id


def _is_guarded(tool: Any) -> bool:
    """Return whether there is something to guard. For an unknown name the framework makes a plain BaseTool, which can't run."""
    return type(tool) is not BaseTool and tool.name not in _CONTROL


def _may_stand_in(tool: Any) -> bool:
    """Return whether it can be called in place of another one: its result comes now, without a person's approval.

    The attribute with the underscore is FunctionTool's and McpTool's (google-adk 2.13). The public question about approvals
    is for one call with its arguments, and the user's function for it may not know those of another tool.
    """
    return not tool.is_long_running and not getattr(tool, "_require_confirmation", False)


def _awaits_person(tool_context: Any) -> bool:
    """Return whether a person has to approve the call or give a credential first, or has rejected it."""
    actions, confirmation = tool_context.actions, tool_context.tool_confirmation
    if actions.requested_tool_confirmations or actions.requested_auth_configs:
        return True
    return confirmation is not None and not confirmation.confirmed


def _answers_later(tool: Any) -> bool:
    """Return whether a tool may return nothing, because its result comes later.

    The attribute with the underscore marks tools that hand a task to another agent (google-adk 2.13).
    """
    return tool.is_long_running or getattr(tool, "_defers_response", False)


def _error_text(result: Any) -> str | None:
    """Return the text of a result that reports an error in the ways of the framework, its plugins and its tutorials."""
    if not isinstance(result, Mapping):
        return None
    if result.get("response_type") == _REFLECTED:  # that plugin comes first, and this one sees its answer only
        return f"{result.get('error_type')}: {result.get('error_details')}"
    if result.get("error"):
        return str(result["error"])
    return str(result.get("error_message", "")) if result.get("status") == "error" else None


def _caught(tool: Any, text: str) -> Classification | None:
    """Return the class of an exception that an McpTool turned into its answer. None for what a server or another tool says.

    The type is found by its name, because its module needs the package ``mcp``.
    """
    by_mcp = any(base.__name__ == "McpTool" for base in type(tool).__mro__)
    found = caught_error(text) if by_mcp else None
    return None if found is None else Classification(found)


def _reflected(error_type: Any) -> Classification:
    """Return the class of an exception that the retry plugin answered in its place: by its type, if that is one of Python's own."""
    kind = getattr(builtins, error_type, None) if isinstance(error_type, str) else None
    if (
        isinstance(kind, type)
        and issubclass(kind, (OSError, ValueError, TypeError))
        and not issubclass(kind, UnicodeError)
    ):
        return classify(kind())
    return Classification("unknown")


def _without(tools: Any, names: set[str]) -> list[Any] | None:
    """Return the request's tools without the declarations of ``names``. None if nothing is left."""
    kept = []
    for tool in tools or []:
        declared = getattr(tool, "function_declarations", None)
        if declared:
            tool.function_declarations = [each for each in declared if each.name not in names]
        if not declared or tool.function_declarations:
            kept.append(tool)
    return kept or None
