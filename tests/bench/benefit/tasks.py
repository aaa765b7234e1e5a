"""Tasks: what an agent is asked, the calls that answer it, and how to see whether it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

OFTEN: Final = 0.1
"""A tool that at least this share of the tasks use may break."""


class NoTasksError(Exception):
    """A set of tasks can't be read here. The message says why."""


class Attempt(Protocol):
    """One attempt at a task, with the state of the world that its calls change."""

    def make(self, step: int) -> int:
        """Make the call of a step, and return the length of its result in characters."""
        ...

    def done(self) -> bool:
        """Return whether the task is done: nothing is missing, and nothing is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the recorded or ground-truth answer."""

    tool: str
    """The circuit's name, such as ``mcp:travel:book_flight``."""
    call_chars: int
    """Characters of the call as the model writes it."""
    said_chars: int = 0
    """Characters that the user says before it."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        task_id: Its name in the data set.
        steps: The calls that answer it, in order.
        tools: Every tool that the agent is offered, with the characters of its description.
        system_chars: Characters of the system prompt.
        attempt: Begins a fresh attempt.
    """

    task_id: str
    steps: tuple[Step, ...]
    tools: Mapping[str, int]
    system_chars: int
    attempt: Callable[[], Attempt]


@dataclass(frozen=True)
class World:
    """A set of tasks that share tools."""

    name: str
    tasks: tuple[Task, ...]

    def often_used(self) -> list[str]:
        """Return the tools that many of the tasks use, by name."""
        counts = Counter(tool for task in self.tasks for tool in {step.tool for step in task.steps})
        return sorted(tool for tool, count in counts.items() if count >= OFTEN * len(self.tasks))

    def uses(self, tool: str) -> float:
        """Return the mean number of calls of a tool in a task."""
        return sum(step.tool == tool for task in self.tasks for step in task.steps) / len(self.tasks)


class Replay:
    """An attempt at a task. Only the calls and the lengths of their results are known.

    It is done when every call was made.
    """

    def __init__(self, results: tuple[int, ...]) -> None:
        self._results = results
        self._made: set[int] = set()

    def make(self, step: int) -> int:
        self._made.add(step)
        return self._results[step]

    def done(self) -> bool:
        return len(self._made) == len(self._results)
