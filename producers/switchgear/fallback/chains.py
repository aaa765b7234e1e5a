"""Which tools stand in for another, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from switchgear_schemas.errors import SwitchgearError

Chains = Mapping[str, str | Sequence[str]]
"""A tool's fallback, or several in order, by the tool's name."""


def reached(tool: str, direct: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """Return the fallbacks of ``tool`` in the order they are tried: those it names, then those that these name, and so on.

    Each tool comes once, so circles in the names are harmless.

    Args:
        tool: The tool. It is never among its own fallbacks.
        direct: Returns the fallbacks that a tool names itself.

    Returns:
        By fallback, the tool that names it.
    """
    found: dict[str, str] = {}
    waiting = [tool]
    for name in waiting:  # grows while it is walked
        for other in direct(name):
            if other != tool and other not in found:
                found[other] = name
                waiting.append(other)
    return found


class FallbackMap:
    """The chains of a client by tool: those of its ``fallbacks``, and those that guards name.

    Args:
        given: See :data:`Chains`.

    Raises:
        SwitchgearError: A tool is its own fallback, or a chain is not a list of names.
    """

    def __init__(self, given: Chains | None = None) -> None:
        self._direct: dict[str, tuple[str, ...]] = {}
        self.update(given or {})

    def update(self, chains: Chains) -> None:
        """Set the chain of each tool in ``chains``. If one is impossible, none is set."""
        if not isinstance(chains, Mapping):
            raise SwitchgearError(
                f"Fallbacks must be a dict by tool, not {chains!r:.100}.", hint='{"tool": ["first", "second"]}'
            )
        self._direct.update({tool: _checked(tool, named) for tool, named in chains.items()})

    def direct(self, tool: str) -> tuple[str, ...]:
        """Return the fallbacks that ``tool`` names itself."""
        return self._direct.get(tool, ())

    def chain(self, tool: str) -> tuple[str, ...]:
        """Return all fallbacks of ``tool`` in order, with those of its fallbacks."""
        return tuple(reached(tool, self.direct)) if tool in self._direct else ()

    def chains(self) -> dict[str, tuple[str, ...]]:
        """Return every tool's chain."""
        return {tool: self.chain(tool) for tool in list(self._direct)}


def _checked(tool: object, named: object) -> tuple[str, ...]:
    if not isinstance(tool, str) or not tool:
        raise SwitchgearError(f"A tool with fallbacks must be a name, not {tool!r:.100}.")
    chain = (named,) if isinstance(named, str) else named
    if not isinstance(chain, Sequence) or not all(isinstance(name, str) and name for name in chain):
        raise SwitchgearError(
            f"The fallbacks of {tool} must be names of tools, not {named!r:.100}.",
            hint="Pass one name, or a list in order.",
        )
    if tool in chain:
        raise SwitchgearError(f"{tool} can't be its own fallback.", hint="Leave it out of its chain.")
    return tuple(chain)
