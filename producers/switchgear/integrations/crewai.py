"""CrewAI: ``guard_crews(gear)``, once, before the first ``kickoff``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from crewai.hooks import HookAborted, register_before_llm_call_hook, unregister_before_llm_call_hook
from crewai.tools.structured_tool import CrewStructuredTool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.utilities.string_utils import sanitize_tool_name

from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.tool_function import guarded_inside
from switchgear.integrations.tool_calls import RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import CircuitOf
from switchgear_schemas.ids import mint_metric_id

_RUN: Final = "_switchgear_run"
"""The attribute of an executor that holds its :class:`_Task`."""
_ORIGINAL: Final = "_switchgear_original"
"""The attribute of a guarded function that holds what it guards."""
_BAD_ARGUMENTS: Final = "arguments validation failed"
"""The framework's words for arguments that don't fit the schema. It raises a ValueError with them."""


def guard_crews(gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> CrewGuard:
    """Guard every tool of all agents and crews of this process, decide which of them models are offered, and tell them about outages.

    Call it before the first ``kickoff``: an agent takes over the hooks when it runs for the first time.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as in the model's list (``search_the_web``), as a dict or a function. By
            default they are the same.
        terminal_after: End a run after this many refused calls of one task: ``kickoff`` raises ``HookAborted``. None: never.

    Returns:
        The guard. Its ``remove()`` ends it, and so does the end of a ``with`` block.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    return CrewGuard(ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A tool in the list that the executor gives to the model."""

    name: str
    schema: Any
    func: Any
    """Its function if that is guarded itself."""


@dataclass(slots=True)
class _Task:
    """One task of an agent."""

    session_id: str = field(default_factory=mint_metric_id)
    offered: list[Any] | None = None
    """The list of tools that the executor gives to the model. It is changed in place."""
    schemas: list[Any] = field(default_factory=list)
    """What was in ``offered`` at first."""
    last_refusal: str = ""
    """The refusal that ends the run."""


class CrewGuard:
    """What :func:`guard_crews` returns."""

    def __init__(self, calls: ToolCalls) -> None:
        self.calls = calls
        self._removed = False
        register_before_llm_call_hook(self._before_model)

    def remove(self) -> None:
        """End the guard. A run that has begun keeps the guarded tools."""
        self._removed = True
        unregister_before_llm_call_hook(self._before_model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.remove()

    # -- the model's requests -----------------------------------------------------------------------------------------

    def _before_model(self, context: Any) -> None:
        """Guard the tools of this run, decide what the model sees, and end the run after too many refusals."""
        if self._removed:
            return
        holder = context.executor
        if holder is None:  # a step of a plan asks the model directly; the agent knows who makes it
            holder = getattr(getattr(context.agent, "agent_executor", None), "_step_executor", None)
        if holder is None:
            return
        run = getattr(holder, _RUN, None)
        if run is None or (context.executor and context.iterations == 0):
            run = _Task()
            object.__setattr__(holder, _RUN, run)
        if run.last_refusal:
            object.__setattr__(holder, _RUN, None)
            raise HookAborted(
                f"The run ends: too many tool calls were refused. {run.last_refusal}", source="switchgear"
            )
        tools = self._guarded(holder, run)
        message = self.calls.message(list(tools), session_id=run.session_id)
        if message:
            context.messages.append({"role": "user", "content": message})

    def _guarded(self, holder: Any, run: _Task) -> Mapping[str, Any]:
        """Guard the functions of an executor, and filter its list. Return its tools by the model's name for them.

        An executor makes its functions new for each run: the user's tools stay as they are. For models that call tools by a
        list it has three private attributes (crewai 1.15), which this method alone knows. For models that write their calls
        as text it has the public list ``tools``, and the prompt describes them once. Such a model asks for one call at a
        time, and the framework repeats it if it fails.
        """
        asked = object()
        tools = {sanitize_tool_name(each.name): each for each in holder.tools if isinstance(each, CrewStructuredTool)}
        functions = {name: _original(each.func) for name, each in tools.items()}
        for name, each in tools.items():
            each.func = self._guard(name, each, functions, run, asked)

        available = getattr(holder, "_available_functions", None) or {}
        mapping = getattr(holder, "_tool_name_mapping", None) or {}
        originals = {name: _original(function) for name, function in available.items()}
        for name in available:
            available[name] = self._guard(name, mapping.get(name, tools.get(name)), originals, run, None)

        offered = getattr(holder, "_openai_tools", None)
        if offered is not None:
            if offered is not run.offered:
                run.offered, run.schemas = offered, list(offered)
            listed = [_listed(each, tools) for each in run.schemas]
            offered[:] = [each.schema for each in self.calls.available(listed, session_id=run.session_id)]
        return tools

    # -- the calls ----------------------------------------------------------------------------------------------------

    def _guard(
        self, name: str, tool: Any, functions: Mapping[str, Callable[..., Any]], run: _Task, asked: object
    ) -> Callable[..., Any]:
        """Return the function of a tool behind its circuit.

        Args:
            name: The model's name for the tool.
            tool: The tool.
            functions: The functions of all tools by name. They can be called in place of another one.
            run: The run.
            asked: An object that stands for the call that the model asks for next, None if it may ask for several.
        """

        @functools.wraps(functions[name])
        def guarded(*args: Any, **given: Any) -> Any:
            call = self.calls.begin(
                name,
                given=given,
                tool=getattr(tool, "_original_tool", tool),
                others=() if args else tuple(functions),
                session_id=run.session_id,
                attempt_of=asked,
            )
            if isinstance(call, RefusedCall):
                return _refusal(run, call)
            try:
                result = functions[call.name](*args, **given)
            except BaseException as error:  # noqa: BLE001 - raised again
                return self._raised(call, run, error)
            if inspect.iscoroutine(result):
                return self._awaited(call, run, result)
            _returned(call, result)
            return result

        setattr(guarded, _ORIGINAL, functions[name])
        return guarded

    async def _awaited(self, call: StartedCall, run: _Task, result: Coroutine[Any, Any, Any]) -> Any:
        try:
            found = await result
        except BaseException as error:  # noqa: BLE001 - raised again
            return self._raised(call, run, error)
        _returned(call, found)
        return found

    def _raised(self, call: StartedCall, run: _Task, error: BaseException) -> ToolFailure:
        """Report an exception and raise it again. Return the refusal of a guard within the tool."""
        if isinstance(error, ValueError) and _BAD_ARGUMENTS in str(error):
            call.failed(error, failure="invalid_input")
        else:
            call.failed(error)
        if isinstance(error, CircuitOpenError):
            return _refusal(run, self.calls.refused(error.rejection, name=call.name, session_id=run.session_id))
        raise error


def _listed(schema: Any, tools: Mapping[str, Any]) -> _Listed:
    name = schema["function"]["name"]
    inside = guarded_inside(getattr(tools.get(name), "_original_tool", None))
    return _Listed(name, schema, None if inside is None else inside.wrapper)


def _original(function: Callable[..., Any]) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(function, _ORIGINAL, function)
    return found


def _returned(call: StartedCall, result: Any) -> None:
    if isinstance(result, ToolFailure) and result.reason is ToolFailureReason.USAGE_LIMIT:
        call.released()  # max_usage_count is spent: the tool was not called
    else:
        call.succeeded(result)


def _refusal(run: _Task, call: RefusedCall) -> ToolFailure:
    """Return a refusal as the framework's own failed result. It keeps no such result in its cache."""
    if call.ends_run:
        run.last_refusal = call.text
    return ToolFailure(message=call.text, details={META_KEY: call.tool_failure})
