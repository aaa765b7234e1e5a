"""Views: the dict of circuits that every call reads; what it answers can be replaced as a whole, at no cost to a call.

Callers keep the dict itself (and nothing between it and them), so while the fleet's state is unavailable its *class* is
exchanged: another ``get``, the same entries. They stay current underneath and are back in force when the class is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from switchgear.follower.view import CircuitView

UNAVAILABLE: Final = "the fleet's state is unavailable"


class Views(dict[str, CircuitView]):
    """By circuit id: what the fleet said last."""

    __slots__ = ("look",)
    look: Callable[[], object]
    """Of :class:`AgingViews`; here because classes are exchanged among those of one layout."""

    def answer(self, kind: type[Views]) -> None:
        """Answer as ``kind`` from here on; in force for a call that asks after this."""
        if type(self) is not kind:
            self.__class__ = kind

    def known(self, circuit_id: str) -> CircuitView | None:
        """What the fleet said last, whatever is answered to calls."""
        return dict.get(self, circuit_id)


class AgingViews(Views):
    """As :class:`Views`, but a call looks at the age first, by ``look``: for a client whose background is not there to look."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:
        """What is answered after the look."""
        self.look()
        kind: type[Views] = type(self)  # perhaps another now
        return dict.get(self, key, default) if kind is AgingViews else kind.get(self, key, default)


class SilentViews(Views):
    """As if the fleet had said nothing: the process's own breakers decide alone."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - the signature of dict.get
        """Nothing."""
        return default


class DenyingViews(Views):
    """Every tool's circuit refuses, for the reason :data:`UNAVAILABLE`."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - the signature of dict.get
        """A refusal of ``key``; of circuits of a user or session too."""
        return denial(key)


def denial(tool: str) -> CircuitView:
    """A circuit of ``tool`` that refuses because nobody can say what state it is in."""
    return CircuitView(
        circuit_id=tool,
        tool_name=tool.partition("|user=")[0].partition("|session=")[0],
        scope="tool",
        state="open",
        mode="enforce",
        version=0,
        generation=0,
        changed_at=0.0,
        open_until=None,
        attempt=0,
        leases=(),
        reason=UNAVAILABLE,
        last_error=None,
        fallback=(),
        passes=False,
        overrides=False,
        forced=True,
    )
