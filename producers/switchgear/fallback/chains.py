"""Which tools stand in for another, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from switchgear.fallback.registry import NO_GROUP, Group
from switchgear_schemas.errors import SwitchgearError

Chains = Mapping[str, str | Sequence[str]]
"""A tool's fallback, or several in order, by the tool's name."""


class FallbackMap:
    """The chains of a client by tool: those of its ``fallbacks``, and those that guards name.

    Args:
        given: See :data:`Chains`.

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
            raise SwitchgearError(
                f"Fallbacks must be a dict by tool, not {chains!r:.100}.", hint='{"tool": ["first", "second"]}'
            )
        self.named.update({tool: _checked(tool, named) for tool, named in chains.items()})

    def chain(self, tool: str, own: tuple[str, ...] = (), group: Group = NO_GROUP) -> dict[str, str]:
        """Return the fallbacks of ``tool`` in the order they are tried: those it names, then those that these name, and so on.

        Each tool comes once, so circles in the names are harmless.

        Args:
            tool: The tool that is refused. It is never among its own fallbacks.
            own: The chain of its guard. If it is empty, the client's map is used.
            group: The guarded functions whose chains are used before those of the map.

        Returns:
            By fallback, the tool that names it.
        """
        found: dict[str, str] = {}
        waiting = [tool]
        for name in waiting:  # grows while it is walked
            given = own if name == tool else group[name].plan.options.chain if name in group else ()
            for other in given or self.named.get(name, ()):
                if other != tool and other not in found:
                    found[other] = name
                    waiting.append(other)
        return found

    def chains(self) -> dict[str, tuple[str, ...]]:
        """Return every tool's chain."""
        return {tool: tuple(self.chain(tool)) for tool in list(self.named)}


def _checked(tool: object, named: object) -> tuple[str, ...]:
    chain = (named,) if isinstance(named, str) else named
    if not isinstance(chain, Sequence) or not all(isinstance(name, str) and name for name in (tool, *chain)):
        raise SwitchgearError(
            f"The fallbacks of {tool} must be names of tools, not {named!r:.100}.",
            hint="Pass one name, or a list in order.",
        )
    if tool in chain:
        raise SwitchgearError(f"{tool} can't be its own fallback.", hint="Leave it out of its chain.")
    return tuple(chain)
