"""Which of an agent's tools to offer to the model now: those whose circuit would let a call through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from switchgear.arguments import impossible, renamed, renaming
from switchgear.fallback.registry import guarded_by
from switchgear.guard.tool_function import unwrapped
from switchgear_schemas.errors import SwitchgearError

T = TypeVar("T")
CircuitOf = Mapping[str, str] | Callable[[str], str] | None
"""From a tool's name in the model's list to its circuit's (``mcp:server:tool``); a name that a mapping lacks is its own."""

_CALLED_BY_US: Final = frozenset({"function", "custom"})
_INNER: Final = ("function", "custom", "toolSpec")
"""Where a tool's name is, if it is not on the tool itself: OpenAI's, and Bedrock's."""
_DECLARATIONS: Final = ("function_declarations", "functionDeclarations")
"""Gemini's list of tools; with one alone in it, it goes by that one's name."""
_PLACES: Final = frozenset({*_INNER, *_DECLARATIONS, "name", "type"})


class NamelessToolError(SwitchgearError):
    """An item of a tool list has no name that could be asked for."""


def available(tools: Iterable[T], refuses: Callable[[str], bool], *, circuit_of: CircuitOf = None) -> list[T]:
    """The items of ``tools`` whose circuit does not refuse, untouched and in order.

    An item may be a name; a dict in the shape of OpenAI (chat completions and responses), Anthropic, MCP, Bedrock or Gemini
    (with one declaration in it); an object with a ``name`` (MCP, LangChain, OpenAI agents); a guarded function, whose circuit
    is known, or any other by its ``__name__``; a ``functools.partial`` of either.
    A tool that the model's provider runs itself, and a mark that is no tool, have no circuit as a rule and so are kept: a
    dict or object with a ``type`` and no name (``{"type": "web_search"}``) goes by its type, a dict with another key alone
    (``{"google_search": {}}``, ``{"cachePoint": {"type": "default"}}``) by that, or by the name in it.

    When all are refused the list is empty. That is the truth, and "never eject everything" is no help here: a model that is
    offered a tool which will be refused spends a turn on it. Leave the parameter out of the request then; OpenAI's API
    rejects an empty list.

    Args:
        tools: The agent's tools.
        refuses: Whether a circuit, by name, would refuse a call now.
        circuit_of: See :data:`CircuitOf`.

    Raises:
        NamelessToolError: naming the item's position and type.
        SwitchgearError: ``tools`` is no list of them, or ``circuit_of`` has no name for one.
    """
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        impossible("tools", "a list of tools", tools, "One alone goes into a list too.")
    renaming("circuit_of", circuit_of)
    kept = []
    for position, tool in enumerate(tools):
        guarded = guarded_by(unwrapped(tool))
        name = name_of(tool) if guarded is None else guarded.plan.tool
        if name is None:
            raise NamelessToolError(
                f"tools[{position}] is a {type(tool).__name__} without a name.",
                hint="Give a name, a dict with a name or a function in it, or an object with .name; of Gemini's tools the declarations.",
            )
        if not refuses(name if guarded is not None else circuit_name(name, circuit_of)):
            kept.append(tool)
    return kept


def circuit_name(name: str, circuit_of: CircuitOf) -> str:
    """The circuit of the tool that the model knows as ``name``."""
    return renamed("circuit_of", circuit_of, name)


def name_of(tool: object) -> str | None:
    """The name an item of a tool list goes by, None where it has none."""
    if isinstance(tool, str):
        return tool or None
    if isinstance(tool, Mapping):
        return _in_mapping(tool)
    inner = (getattr(getattr(tool, each, None), "name", None) for each in _INNER)
    plain = getattr(unwrapped(tool), "__name__", None)
    hosted = _hosted(getattr(tool, "type", None))
    return _first((getattr(tool, "name", None), *inner, getattr(tool, "__name__", None), plain, hosted))


def _in_mapping(tool: Mapping[Any, Any]) -> str | None:
    inner = [tool.get(each) for each in _INNER]
    for each in _DECLARATIONS:
        declared = tool.get(each)
        if isinstance(declared, list) and len(declared) == 1:
            inner += declared
    names = (each.get("name") for each in inner if isinstance(each, Mapping))
    return _first((*names, tool.get("name"), _hosted(tool.get("type")), *_alone(tool)))


def _hosted(kind: object) -> str | None:
    """The name of a tool that the provider runs, by its type."""
    return kind if isinstance(kind, str) and kind not in _CALLED_BY_US else None


def _alone(tool: Mapping[Any, Any]) -> tuple[object, ...]:
    """The names that a dict with one key, none of those where we look for a tool's name, may go by."""
    if len(tool) != 1:
        return ()
    ((key, value),) = tool.items()
    return (value.get("name"), key) if isinstance(value, Mapping) and key not in _PLACES else ()


def _first(names: Iterable[object]) -> str | None:
    return next((name for name in names if isinstance(name, str) and name), None)
