"""Which tools may stand in for another: chains by name, each tool once, whatever circles the names make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from switchgear_schemas.errors import SwitchgearError

Chains = Mapping[str, str | Sequence[str]]
"""Tool to its fallback, or to several in order."""


def flatten(tool: str, direct: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """The fallbacks of ``tool`` in the order they are tried: those it names, then those that these name, and so on.

    Args:
        tool: Whose; it is never among them.
        direct: The fallbacks that a tool names itself.
    """
    found = [tool]
    for name in found:  # grows while it is walked
        found.extend(other for other in dict.fromkeys(direct(name)) if other not in found)
    return tuple(found[1:])


class FallbackMap:
    """Chains by tool: those of the client's map, and those that guards name. A guard's own chain goes before the map's.

    Args:
        given: See :data:`Chains`.

    Raises:
        SwitchgearError: a tool is its own fallback, or a chain is no list of names.
    """

    def __init__(self, given: Chains | None = None) -> None:
        self._direct: dict[str, tuple[str, ...]] = {}
        self._flat: dict[str, tuple[str, ...]] = {}
        self.update(given or {})

    def update(self, chains: Chains) -> None:
        """Set the chain of each tool that ``chains`` names."""
        for tool, named in chains.items():
            chain = (named,) if isinstance(named, str) else tuple(named)
            if not all(isinstance(name, str) and name for name in chain):
                raise SwitchgearError(f"The fallbacks of {tool} are names of tools, not {named!r}.")
            if tool in chain:
                raise SwitchgearError(f"{tool} is named as its own fallback.", hint="Leave it out of its chain.")
            self._direct[tool] = chain
        self._flat = {}  # anew, not emptied: a thread that is working one out keeps it in the old one

    def chain(self, tool: str) -> tuple[str, ...]:
        """All fallbacks of ``tool`` in order, those of its fallbacks too."""
        if not self._direct:
            return ()
        flat = self._flat
        found = flat.get(tool)
        if found is None:
            found = flatten(tool, lambda name: self._direct.get(name, ()))
            if tool in self._direct:
                flat[tool] = found
        return found

    def chains(self) -> dict[str, tuple[str, ...]]:
        """Every tool's chain."""
        return {tool: self.chain(tool) for tool in list(self._direct)}
