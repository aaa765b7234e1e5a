"""What every contender implements: how a process of the fleet makes a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

Make = Callable[[str], Awaitable[Any]]
"""Makes the call by the tool of that name: the one that was asked for, or its replica. Returns the result."""


class RefusedError(Exception):
    """The call was not made. The text is what the model gets to see.

    Attributes:
        wait_s: The seconds that the text tells the model to wait. None if it names no time.
    """

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class ToolCaller:
    """One process of the fleet, with one agent. This one just makes the calls."""

    async def call(self, tool: str, make: Make) -> Any:
        """Make a call, or let something else answer it.

        Raises:
            RefusedError: It was not made.
            Exception: The tool's error.
        """
        return await make(tool)

    def offered(self, tools: Sequence[str], conversation: str) -> Sequence[str]:
        """Return the tools to list for the model now. A stable list keeps the prompt's cache.

        Args:
            tools: All tools of the agent.
            conversation: Identifies the conversation, which is one task.
        """
        return tools

    def notice(self, tools: Sequence[str]) -> str:
        """Return what the system prompt says now about tools that are out."""
        return ""

    def message(self, tools: Sequence[str], conversation: str) -> str:
        """Return what is appended to the conversation now about tools that are out. Empty for nothing."""
        return ""


class Fleet:
    """The processes of one run and what they share. Made within the run's event loop."""

    def process(self, number: int) -> ToolCaller:
        """Return a new process."""
        return ToolCaller()

    def close(self) -> None:
        """End the processes."""


@dataclass(frozen=True)
class Arm:
    """A contender.

    Attributes:
        name: As in the tables.
        sentence: What it is, with its version and its defaults.
        place: Its place in the tables.
        fleet: Makes its processes.
        needs: A module of the extra ``bench``. Without it the arm is left out.
    """

    name: str
    sentence: str
    place: int
    fleet: Callable[[], Fleet]
    needs: str = ""

    @property
    def here(self) -> bool:
        """Whether what it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None
