"""What stands in for a tool whose circuit refuses: the chains of fallbacks by name, and the functions that the names mean."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from switchgear import arguments
from switchgear.guard.tool_function import Guarded, guarded_by
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.options import GuardOptions
    from switchgear.guard.tool_function import Kind, ToolFunction


Chains = Mapping[str, str | Sequence[str]]
"""A tool's fallback, or several in order, by the tool's name."""

MAY_STAND_IN: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "function": ("function",),
    "coroutine": ("coroutine", "function"),
    "generator": ("generator",),
    "async_generator": ("async_generator",),
}
"""By the kind of the call: the kinds of functions that its caller can call instead, the better one first."""

DIFFERENT: Final = "different functions are guarded under that name (give the one that is meant as fallback=)"


Group = Mapping[str, Guarded]
"""Functions by tool that fall back on each other: those of one agent, or those given as a fallback themselves."""
NO_GROUP: Final[Group] = {}


class FallbackMap:
    """The chains of a client by tool: those of its ``fallbacks``, and those that guards name.

    Raises:
        SwitchgearError: A tool is its own fallback, or a chain is not a list of names.
    """

    def __init__(self, given: Chains | None = None) -> None:
        self.named: dict[str, tuple[str, ...]] = {}
        """By tool, the fallbacks that it names itself."""
        self.update(given or {})

    def update(self, chains: Chains) -> None:
        """Set the chain of each tool in ``chains``. If one is impossible, none is set."""
        if not isinstance(chains, Mapping):
            arguments.impossible("Fallbacks", "a dict by tool", chains, '{"tool": ["first", "second"]}')
        self.named.update({tool: _checked(tool, named) for tool, named in chains.items()})

    def chain(self, tool: str, own: tuple[str, ...] = (), group: Group = NO_GROUP) -> tuple[str, ...]:
        """Return the fallbacks of ``tool`` in the order they are tried: those it names, then those that these name, and so on.

        Each tool comes once, so circles in the names are harmless. The guard's ``own`` chain goes before the map, and so do the
        chains of the functions in ``group``.
        """
        found = [tool]
        for name in found:  # grows while it is walked
            given = own if name == tool else group[name].plan.options.chain if name in group else ()
            found += dict.fromkeys(other for other in given or self.named.get(name, ()) if other not in found)
        return tuple(found[1:])

    def chains(self) -> dict[str, tuple[str, ...]]:
        """Return every tool's chain."""
        return {tool: self.chain(tool) for tool in list(self.named)}


def _checked(tool: object, named: object) -> tuple[str, ...]:
    arguments.identifier("A tool's name in fallbacks", tool, '{"tool": ["first", "second"]}', least=1)
    chain = arguments.tool_names(f"The fallbacks of {tool}", named)
    if tool in chain:
        raise SwitchgearError(f"{tool} can't be its own fallback.", hint="Leave it out of its chain.")
    return chain


def resolved(runtime: object, options: GuardOptions) -> tuple[GuardOptions, Group]:
    """Replace a fallback that is a guarded function of this client by its tool's name. Return also what the name means."""
    found = guarded_by(options.fallback)
    if found is None or found.plan.runtime is not runtime:
        return options, NO_GROUP
    tool, plan = found.tool, found.plan
    if inspect.ismethod(options.fallback) and tool.receiver:
        bound = functools.partial(tool.call, options.fallback.__self__)
        tool = dataclasses.replace(tool, call=bound, receiver=False)
    named = dataclasses.replace(options, fallback=plan.tool)
    return named, {**plan.group, plan.tool: Guarded(tool, plan)}


class StandIns:
    """The guarded functions by tool and kind. Thread-safe.

    The same function guarded again replaces itself, as after a reload. If different functions share a name (of two users or
    agents, perhaps), none of them stands in.
    """

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[Kind, Guarded | None]] = {}
        self._lock = threading.Lock()

    def add(self, tool: str, examined: ToolFunction, plan: Any) -> None:
        """Add a function that is guarded as ``tool``."""
        with self._lock:
            kinds = self._by_tool.setdefault(tool, {})
            if examined.kind in kinds:
                known = kinds[examined.kind]
                if known is None or not same_function(known.tool.call, examined.call):
                    kinds[examined.kind] = None
                    return
            kinds[examined.kind] = Guarded(examined, plan)

    def find(self, tool: str, kind: Kind, group: Group) -> Guarded | str | None:
        """Return what stands in as ``tool``, or why nothing does; None if it is not guarded here. The caller's ``group`` goes first."""
        own = group.get(tool)
        kinds: Mapping[Kind, Guarded | None] = self._by_tool.get(tool, {}) if own is None else {own.tool.kind: own}
        if not kinds:
            return None
        for fitting in MAY_STAND_IN[kind]:
            if fitting in kinds:
                return kinds[fitting] or DIFFERENT
        return f"a {next(iter(kinds))} in place of a {kind}"


_PLAIN: Final = (str, bytes, int, float, bool, type(None))
_DEEPEST: Final = 5


def same_function(one: Any, other: Any, depth: int = 0) -> bool:
    """Return whether two functions are the same: by module, qualified name and what their closures hold.

    Two closures of one function may act for two users, so what they hold is compared too: text and numbers by value, the rest
    by identity. If in doubt, they are different.
    """
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEEPEST:
        return False
    if isinstance(one, (*_PLAIN, MethodType)):
        return bool(one == other)
    if not isinstance(one, (FunctionType, type)):
        return False
    first, second = _parts(one), _parts(other)
    return len(first) == len(second) and all(same_function(a, b, depth + 1) for a, b in zip(first, second, strict=True))


def _parts(thing: FunctionType | type) -> list[object]:
    """Return what distinguishes ``thing`` from others. A module that is loaded again makes its defaults again."""
    found: list[object] = [thing.__module__, thing.__qualname__]
    if isinstance(thing, FunctionType):
        found += [_held(cell) for cell in thing.__closure__ or ()]
        if "<" in thing.__qualname__:  # made within a function
            found += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    return found


def _held(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # still empty: what it will hold is unknown
        return object()


def candidates(targets: Sequence[str], is_open: Callable[[str], bool], *, max_open_percent: float = 100.0) -> list[str]:
    """Return the targets that may be called, in their order.

    Open ones are left out while they are at most ``max_open_percent`` of all, but always at least one, as with Envoy's
    ``max_ejection_percent``. Beyond that the later targets are kept, although they are open. If no target is left, all are kept: a
    call to a broken tool is no worse than no call (Envoy's panic threshold, Portkey's empty ``healthyTargets``).
    """
    allowed = max(1, int(len(targets) * max_open_percent / 100))
    kept: list[str] = []
    for looked_at, target in enumerate(targets):
        if looked_at - len(kept) >= allowed or not is_open(target):
            kept.append(target)
    return kept or list(targets)
