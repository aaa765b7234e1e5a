"""Which tools may stand in for another: chains by name, each tool once, whatever circles the names make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from switchgear_schemas.errors import SwitchgearError

Chains = Mapping[str, str | Sequence[str]]
"""Tool to its fallback, or to several in order."""


def reached(tool: str, direct: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """The fallbacks of ``tool`` in the order they are tried: those it names, then those that these name, and so on.

    Args:
        tool: Whose; it is never among them.
        direct: The fallbacks that a tool names itself.

    Returns:
        Fallback to the tool that names it.
    """
    found: dict[str, str] = {}
    waiting = [tool]
    for name in waiting:  # grows while it is walked
        for other in direct(name):
            if other != tool and other not in found:
                found[other] = name
                waiting.append(other)
    return found


def flatten(tool: str, direct: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """:func:`reached` without by whom."""
    return tuple(reached(tool, direct))


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
        """Set the chain of each tool that ``chains`` names: of all, or, where one is impossible, of none."""
        if not isinstance(chains, Mapping):
            raise SwitchgearError(
                f"Fallbacks are given by tool, not as {chains!r:.100}.", hint='{"tool": ["first", "second"]}'
            )
        self._direct.update({tool: _checked(tool, named) for tool, named in chains.items()})
        self._flat = {}  # anew, not emptied: a thread that is working one out keeps it in the old one

    def direct(self, tool: str) -> tuple[str, ...]:
        """The fallbacks that ``tool`` names itself."""
        return self._direct.get(tool, ())

    def chain(self, tool: str) -> tuple[str, ...]:
        """All fallbacks of ``tool`` in order, those of its fallbacks too."""
        if not self._direct:
            return ()
        flat = self._flat
        found = flat.get(tool)
        if found is None:
            found = flatten(tool, self.direct)
            if tool in self._direct:
                flat[tool] = found
        return found

    def chains(self) -> dict[str, tuple[str, ...]]:
        """Every tool's chain."""
        return {tool: self.chain(tool) for tool in list(self._direct)}


def _checked(tool: object, named: object) -> tuple[str, ...]:
    if not isinstance(tool, str) or not tool:
        raise SwitchgearError(f"Fallbacks are given by the name of a tool, not by {tool!r:.100}.")
    chain = (named,) if isinstance(named, str) else named
    if not isinstance(chain, Sequence) or not all(isinstance(name, str) and name for name in chain):
        raise SwitchgearError(
            f"The fallbacks of {tool} are names of tools, not {named!r:.100}.", hint="One name, or a list in order."
        )
    if tool in chain:
        raise SwitchgearError(f"{tool} is named as its own fallback.", hint="Leave it out of its chain.")
    return tuple(chain)
