"""A server with several tools, which counts its own calls, and the processes that call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from switchgear import CircuitOpenError, Switchgear

SERVER = "mcp:github"


class ToolServer:
    """A server whose tools answer, or don't."""

    def __init__(self, name: str = SERVER, tools: int = 40) -> None:
        self.name = name
        self.tools = [f"{name}:tool{number}" for number in range(tools)]
        self.up = True
        self.broken: set[str] = set()
        """Tools that fail although the server is up."""
        self.calls = 0

    def call(self, tool: str) -> str:
        """Serve a call of a tool.

        Raises:
            ConnectionError: The server is down, or the tool is broken.
        """
        self.calls += 1
        if not self.up or tool in self.broken:
            raise ConnectionError("connection refused")
        return "found"

    def guarded(self, gear: Switchgear) -> dict[str, Callable[[], str]]:
        """Return the tools as functions guarded by ``gear``, by name."""
        return {tool: gear.guard(tool)(lambda tool=tool: self.call(tool)) for tool in self.tools}


def call_all(*processes: dict[str, Callable[[], str]]) -> Counter[str]:
    """Call every tool of every process once. Count what happened: ``found``, ``failed``, ``refused``, or ``refused by <family>``."""
    seen: Counter[str] = Counter()
    for tools in processes:
        for call in tools.values():
            try:
                seen[call()] += 1
            except CircuitOpenError as refused:
                seen["refused" if refused.family is None else f"refused by {refused.family}"] += 1
            except ConnectionError:
                seen["failed"] += 1
    return seen
