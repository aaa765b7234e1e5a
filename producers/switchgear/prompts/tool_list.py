"""Choose the tools to offer to the model: those whose circuit would let a call through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from switchgear.arguments import impossible, renamed, renaming
from switchgear.fallback.registry import guarded_by
from switchgear.guard.tool_function import unwrapped
from switchgear_schemas.errors import SwitchgearError

T = TypeVar("T")
CircuitOf = Mapping[str, str] | Callable[[str], str] | None
"""Returns the name of the circuit (``mcp:server:tool``) for a name in the list. A mapping leaves names that it lacks unchanged."""

_CALLED_BY_US: Final = ("function", "custom")
_INNER: Final = ("function", "custom", "toolSpec")
"""Keys of OpenAI and Bedrock that hold the tool with its name."""
_DECLARATIONS: Final = ("function_declarations", "functionDeclarations")
"""Keys of Gemini that hold a list of tools. A list with one tool has its name."""
_PLACES: Final = frozenset({*_INNER, *_DECLARATIONS, "name", "type"})


class NamelessToolError(SwitchgearError):
    """An item of a tool list has no name."""


def available(tools: Iterable[T], refuses: Callable[[str], bool], *, circuit_of: CircuitOf = None) -> list[T]:
    """Return the items of ``tools`` whose circuit doesn't refuse calls, unchanged and in order.

    An item may be a name; a dict in the format of OpenAI (chat completions and responses), Anthropic, MCP, Bedrock or Gemini
    (with one declaration); an object with a ``name`` (MCP, LangChain, OpenAI agents); a guarded function; any other function,
    by its ``__name__``; or a ``functools.partial`` of a function.

    Tools that the model's provider runs, and marks that aren't tools, usually have no circuit and stay in the list. A dict or
    object with a ``type`` and no name (``{"type": "web_search"}``) has its type as its name. A dict with one other key
    (``{"google_search": {}}``, ``{"cachePoint": {"type": "default"}}``) has the name in it, or the key.

    If all circuits refuse, the list is empty: a model that is offered a refused tool wastes a turn on it. Leave the parameter
    out of the request then, because OpenAI's API rejects an empty list.

    Args:
        tools: The agent's tools.
        refuses: Returns whether the circuit with a name would refuse a call.
        circuit_of: See :data:`CircuitOf`.

    Raises:
        NamelessToolError: An item has no name. The message has its position and type.
        SwitchgearError: ``tools`` isn't a list, or ``circuit_of`` returns no name for an item.
    """
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        impossible("tools", "a list of tools", tools, "Put a single tool into a list.")
    renaming("circuit_of", circuit_of)
    kept = []
    for position, tool in enumerate(tools):
        guarded = guarded_by(unwrapped(tool))
        name = name_of(tool) if guarded is None else guarded.plan.tool
        if name is None:
            raise NamelessToolError(
                f"tools[{position}] is a {type(tool).__name__} without a name.",
                hint="Give a name, a dict with a name or a function in it, or an object with .name. Of Gemini's tools give the declarations.",
            )
        if not refuses(name if guarded is not None else renamed("circuit_of", circuit_of, name)):
            kept.append(tool)
    return kept


def name_of(tool: object) -> str | None:
    """Return the name of an item of a tool list, or None."""
    if isinstance(tool, str):
        return tool or None
    inner = [_read(tool, key) for key in _INNER]
    declared = [_read(tool, key) for key in _DECLARATIONS]
    inner += [each[0] for each in declared if isinstance(each, list) and len(each) == 1]
    kind = _read(tool, "type")
    names = (
        _read(tool, "name"),
        *(_read(each, "name") for each in inner),
        _read(tool, "__name__"),
        _read(unwrapped(tool), "__name__"),
        None if kind in _CALLED_BY_US else kind,
        *_alone(tool),
    )
    return next((name for name in names if isinstance(name, str) and name), None)


def _read(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _alone(tool: object) -> tuple[object, ...]:
    """Return the possible names of a dict with one key that isn't a known place of a name."""
    if not isinstance(tool, Mapping) or len(tool) != 1:
        return ()
    ((key, value),) = tool.items()
    return (value.get("name"), key) if isinstance(value, Mapping) and key not in _PLACES else ()
