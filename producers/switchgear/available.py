"""Which of an agent's tools to offer to the model now: those whose circuit would let a call through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from switchgear.guard.decorate import guarded_by
from switchgear_schemas.errors import SwitchgearError

T = TypeVar("T")
CircuitOf = Mapping[str, str] | Callable[[str], str] | None
"""From a tool's name in the model's list to its circuit's (``mcp:server:tool``); a name that a mapping lacks is its own."""

_CALLED_BY_US: Final = frozenset({"function", "custom"})


class NamelessToolError(SwitchgearError):
    """An item of a tool list has no name that could be asked for."""


def available(tools: Iterable[T], refuses: Callable[[str], bool], *, circuit_of: CircuitOf = None) -> list[T]:
    """The items of ``tools`` whose circuit does not refuse, untouched and in order.

    An item may be a name; a dict in the shape of OpenAI (chat completions and responses), Anthropic or MCP; an object with
    a ``name`` (MCP, LangChain, OpenAI agents); a guarded function, whose circuit is known, or any other by its ``__name__``.
    A tool that the model's provider runs itself, a dict with a ``type`` and no name (``{"type": "web_search"}``), goes by
    its type.

    When all are refused the list is empty. That is the truth, and "never eject everything" is no help here: a model that is
    offered a tool which will be refused spends a turn on it. Leave the parameter out of the request then; OpenAI's API
    rejects an empty list.

    Args:
        tools: The agent's tools.
        refuses: Whether a circuit, by name, would refuse a call now.
        circuit_of: See :data:`CircuitOf`.

    Raises:
        NamelessToolError: naming the item's position and type.
    """
    kept = []
    for position, tool in enumerate(tools):
        guarded = guarded_by(tool)
        name = name_of(tool) if guarded is None else guarded.plan.tool
        if name is None:
            raise NamelessToolError(
                f"tools[{position}] is a {type(tool).__name__} without a name.",
                hint="Give a name, a dict with a name or a function in it, or an object with .name.",
            )
        if not refuses(name if guarded is not None else circuit_name(name, circuit_of)):
            kept.append(tool)
    return kept


def circuit_name(name: str, circuit_of: CircuitOf) -> str:
    """The circuit of the tool that the model knows as ``name``."""
    if circuit_of is None:
        return name
    return circuit_of.get(name, name) if isinstance(circuit_of, Mapping) else circuit_of(name)


def name_of(tool: object) -> str | None:
    """The name an item of a tool list goes by, None where it has none."""
    if isinstance(tool, str):
        return tool or None
    if isinstance(tool, Mapping):
        return _in_mapping(tool)
    function = getattr(tool, "function", None)  # OpenAI's ChatCompletionToolParam as an object
    found = (getattr(tool, "name", None), getattr(function, "name", None), getattr(tool, "__name__", None))
    return next((name for name in found if isinstance(name, str) and name), None)


def _in_mapping(tool: Mapping[Any, Any]) -> str | None:
    inner = tool.get("function")
    kind = tool.get("type")
    hosted = kind if kind not in _CALLED_BY_US else None
    for name in (inner.get("name") if isinstance(inner, Mapping) else None, tool.get("name"), hosted):
        if isinstance(name, str) and name:
            return name
    return None
