"""Claude Agent SDK: ``options = guard_options(gear, ClaudeAgentOptions(mcp_servers=servers))``."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, create_sdk_mcp_server

from switchgear import arguments
from switchgear.classify.result import client_error
from switchgear.client import Switchgear
from switchgear.integrations.tool_calls import (
    MOST_FAILED,
    MOST_SESSIONS,
    OpenCalls,
    RefusedCall,
    StartedCall,
    ToolCalls,
)
from switchgear.prompts import CircuitOf
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_schemas.families import circuit_name, model_name, split_mcp_name
from switchgear_schemas.ids import mint_metric_id

GUARDED_TOOLS: Final = "mcp__*"
"""Built-in tools are left out: an exit code of Bash says nothing about Bash."""
_MOST_SEEN: Final = 1_000
"""The most names of tools to remember for the messages."""


def guard_options(
    gear: Switchgear,
    options: ClaudeAgentOptions | None = None,
    *,
    tools: str | Sequence[str] = GUARDED_TOOLS,
    circuit_of: CircuitOf = None,
    terminal_after: int | None = None,
) -> ClaudeAgentOptions:
    """Return a copy of ``options`` with hooks that guard every tool, ahead of your own hooks.

    Call it for each query, or for each connection of a ``ClaudeSDKClient``.

    Args:
        gear: The client.
        options: Your options. None: the SDK's defaults.
        tools: Which tools to guard: a glob over Claude's names, or several.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default, and for names that a dict lacks,
            ``mcp__server__tool`` has the circuit ``mcp:server:tool``, and a built-in tool has its own name.
        terminal_after: Stop the session after this many refused calls. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    given = ClaudeAgentOptions() if options is None else options
    hooks = _Hooks(ToolCalls(gear, circuit_of=_named(circuit_of), terminal_after=terminal_after), given, tools)
    theirs = given.hooks or {}
    merged = {**theirs, **{event: [matcher, *theirs.get(event, ())] for event, matcher in hooks.matchers().items()}}
    return dataclasses.replace(given, hooks=merged, disallowed_tools=[*given.disallowed_tools, *hooks.hidden()])


def observed_mcp_server(name: str, version: str = "1.0.0", tools: Sequence[Any] = ()) -> Any:
    """Make an in-process MCP server, as ``create_sdk_mcp_server`` does, whose tools and exceptions the hooks know.

    Without it, the hooks see only the text of an exception, so ``ConnectionError("refused")`` doesn't count as an outage. They
    also count the call of a function that is guarded itself.

    Args:
        name: The server's name.
        version: Its version.
        tools: Functions with the SDK's decorator ``@tool``.

    Returns:
        The configuration for ``ClaudeAgentOptions.mcp_servers``.
    """
    observed = _ObservedServer(tools)
    config = create_sdk_mcp_server(name, version, [observed.observing(tool) for tool in tools])
    _observed[config["instance"]] = observed
    return config


def _named(circuit_of: CircuitOf) -> CircuitOf:
    if circuit_of is None:
        return circuit_name
    if not isinstance(circuit_of, Mapping):
        return circuit_of
    given = circuit_of
    return lambda name: given[name] if name in given else circuit_name(name)


class _ObservedServer:
    """The tools of an in-process server, and the exceptions that they raised last."""

    def __init__(self, tools: Sequence[Any]) -> None:
        self.tools = tuple(tools)
        self._errors = BoundedDict[str, Exception](MOST_FAILED)

    def observing(self, tool: Any) -> Any:
        """Return a copy of a tool that keeps its exceptions for :meth:`error_of`."""

        async def handler(given: Any) -> Any:
            try:
                return await tool.handler(given)
            except Exception as error:
                self._errors[_key(tool.name, given)] = error
                raise

        return dataclasses.replace(tool, handler=handler)

    def error_of(self, tool: str, given: Any) -> Exception | None:
        """Return the exception of a call with these arguments, once. The SDK doesn't say which call a handler works for."""
        return self._errors.pop(_key(tool, given), None)


_observed: Final[WeakKeyDictionary[Any, _ObservedServer]] = WeakKeyDictionary()


def _key(tool: str, given: Any) -> str:
    return f"{tool} {json.dumps(given, sort_keys=True, default=str)}"


class _Hooks:
    """The callbacks, and the calls that have begun."""

    def __init__(self, calls: ToolCalls, options: ClaudeAgentOptions, tools: str | Sequence[str]) -> None:
        self._globs = (tools,) if isinstance(tools, str) else tuple(tools)
        if not all(isinstance(glob, str) and glob for glob in self._globs):
            arguments.impossible(
                "tools", "a glob, or several", tools, 'tools="mcp__*" guards the tools of MCP servers.'
            )
        self._calls = calls
        servers = options.mcp_servers if isinstance(options.mcp_servers, Mapping) else {}
        self._servers = {
            server: observed
            for server, config in servers.items()
            if isinstance(config, Mapping)
            and config.get("type") == "sdk"
            and (observed := _observed.get(config["instance"])) is not None
        }
        """The observed servers by name."""
        own = [
            dataclasses.replace(tool, name=f"mcp__{server}__{tool.name}")
            for server, observed in self._servers.items()
            for tool in observed.tools
        ]
        self._tools = {tool.name: tool for tool in own if self._guards(tool.name)}
        """The tools of observed servers by Claude's name."""
        allowed = [name for name in options.allowed_tools if not set("*()") & set(name) and self._guards(name)]
        self._names = dict.fromkeys([*self._tools, *allowed])
        self._prefixes = tuple(f"mcp:{server}:" for server in servers)
        self._open = OpenCalls()
        self._ids = BoundedDict[tuple[str, str], set[str]](MOST_SESSIONS)
        """The ids of the calls that have begun, by session and sub-agent."""

    def matchers(self) -> dict[str, Any]:
        """Return what to put into ``ClaudeAgentOptions.hooks``."""
        callbacks = {
            "PreToolUse": self.before,
            "PostToolUse": self.after,
            "PostToolUseFailure": self.failed,
            "UserPromptSubmit": self.prompt,
            "Stop": self.stopped,
            "SubagentStop": self.stopped,
        }
        return {event: HookMatcher(hooks=[callback]) for event, callback in callbacks.items()}

    def hidden(self) -> list[str]:
        """Return the names of the known tools that the session that begins now isn't offered."""
        tools = [self._tools.get(name, name) for name in self._known()]
        kept = {getattr(tool, "name", tool) for tool in self._calls.available(tools, session_id=mint_metric_id())}
        return [name for name in self._known() if name not in kept]

    async def before(self, data: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """Deny a call that the circuit refuses. An empty answer leaves it to the permissions."""
        name, call_id = data["tool_name"], tool_use_id or data["tool_use_id"]
        if not self._guards(name):
            return {}
        if len(self._names) < _MOST_SEEN:
            self._names[name] = None
        call = await self._calls.abegin(
            name, given=data["tool_input"], tool=self._tools.get(name), session_id=data["session_id"]
        )
        if isinstance(call, RefusedCall):
            return self._denied(call)
        self._open.put(call_id, call)
        ids = self._ids.get(_thread(data), set())
        ids.add(call_id)
        if (forgotten := self._ids.put(_thread(data), ids)) is not None:
            self._release(forgotten[1])
        return {}

    async def after(self, data: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """Report an answer."""
        call = self._take(data, tool_use_id)
        if call is not None:
            call.succeeded(data["tool_response"], duration_ms=data.get("duration_ms"))
        return self._told(data)

    async def failed(self, data: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """Report a failure. It is a text, unless an observed server knows the exception."""
        call = self._take(data, tool_use_id)
        error = self._error_of(data)
        if call is None:
            return {}
        duration_ms = data.get("duration_ms")
        if data.get("is_interrupt"):
            call.ignored(data["error"])
        elif error is not None:
            call.failed(error, duration_ms=duration_ms)
        else:  # as a result that says so, for the rules of classify_result
            failure = None if self._calls.gear.options.classify_result else client_error(data["error"])
            call.succeeded({"content": data["error"], "is_error": True}, failure=failure, duration_ms=duration_ms)
        return self._told(data)

    async def prompt(self, data: Any, _tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """Tell the model about outages, after the user's prompt."""
        self._release(self._ids.pop(_thread(data), set()))
        return self._told(data)

    async def stopped(self, data: Any, _tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """Give back the permissions of calls that were not made: the user, or another hook, denied them."""
        self._release(self._ids.pop(_thread(data), set()))
        return {}

    def _told(self, data: Any) -> dict[str, Any]:
        """Return the answer to an event that appends what there is to say about outages to the conversation."""
        said = self._calls.message(self._known(), session_id=" ".join(_thread(data)))
        if not said:
            return {}
        return {"hookSpecificOutput": {"hookEventName": data["hook_event_name"], "additionalContext": said}}

    def _guards(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, glob) for glob in self._globs)

    def _known(self) -> tuple[str, ...]:
        """Return the names of the tools that are known: the SDK doesn't give hooks the list."""
        fleet = (model_name(circuit) for circuit in self._calls.gear.circuits() if circuit.startswith(self._prefixes))
        return tuple(dict.fromkeys([*self._names, *(name for name in fleet if self._guards(name))]))

    def _denied(self, call: RefusedCall) -> dict[str, Any]:
        rejection = call.rejection
        if rejection.fallback is not None:
            known = self._calls.names(self._known())
            instead = known.get(rejection.fallback) or model_name(rejection.fallback)
            rejection = msgspec.structs.replace(rejection, fallback=instead)
        output = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": rejection.text,
        }
        ends = {"continue_": False, "stopReason": f"Too many tool calls were refused. {rejection.text}"}
        return {"hookSpecificOutput": output, **(ends if call.ends_run else {})}

    def _take(self, data: Any, tool_use_id: str | None) -> StartedCall | None:
        call_id = tool_use_id or data["tool_use_id"]
        ids = self._ids.get(_thread(data))
        if ids is not None:
            ids.discard(call_id)
            if not ids:
                self._ids.pop(_thread(data), None)
        return self._open.take(call_id)

    def _error_of(self, data: Any) -> Exception | None:
        server, tool = split_mcp_name(data["tool_name"]) or ("", "")
        observed = self._servers.get(server)
        return None if observed is None else observed.error_of(tool, data["tool_input"])

    def _release(self, ids: set[str]) -> None:
        for call_id in ids:
            call = self._open.take(call_id)
            if call is not None:
                call.released()


def _thread(data: Any) -> tuple[str, str]:
    """Return the session and the sub-agent of an event."""
    return data["session_id"], data.get("agent_id") or ""
