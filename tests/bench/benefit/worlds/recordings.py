"""The recorded runs of tau-bench's airline agent (MIT), in ``../shared/data``: real calls, real lengths, real reactions to errors."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.benefit.tasks import NoTasksError, Replay, Step, Task, World

PATH: Final = Path(__file__).resolve().parents[5] / "shared" / "data" / "agent_calls_tau_airline.jsonl.gz"
SYSTEM_CHARS: Final = 7_000
"""The airline's policy, which is the agent's system prompt, has about this length."""
TOOL_CHARS: Final = 450
"""So long is the description of a tool, on average."""


def runs(path: Path = PATH) -> list[list[dict[str, Any]]]:
    """Return the calls of each run.

    Raises:
        NoTasksError: The recordings aren't there.
    """
    if not path.exists():
        raise NoTasksError("the recordings are not part of a clone: there is no ../shared/data")
    found: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            call = json.loads(line)
            found.setdefault(call["session_id"], []).append(call)
    return list(found.values())


@dataclass(frozen=True)
class Reactions:
    """What the recorded agent did after an error of a tool, as numbers of errors."""

    errors: int
    again: int
    """Its next call was of the same tool."""
    came_back: int
    """It made other calls first, one or more, and then called the tool again."""
    left: int
    """It never called the tool again in that run."""
    ended: int
    """The error was the last call of the run."""


def reactions(found: Sequence[Sequence[dict[str, Any]]]) -> Reactions:
    """Count what followed each error."""
    again = came_back = left = ended = 0
    for calls in found:
        for place, call in enumerate(calls):
            if call["status"] == "success":
                continue
            later = [each["tool_name"] for each in calls[place + 1 :]]
            if not later:
                ended += 1
            elif later[0] == call["tool_name"]:
                again += 1
            elif call["tool_name"] in later:
                came_back += 1
            else:
                left += 1
    return Reactions(again + came_back + left + ended, again, came_back, left, ended)


def load() -> list[World]:
    """Return one world. Each run is a task: to make its successful calls again.

    Raises:
        NoTasksError: The recordings aren't there.
    """
    found = runs()
    tools = {f"mcp:tau:{call['tool_name']}": TOOL_CHARS for calls in found for call in calls}
    tasks = []
    for number, calls in enumerate(found):
        good = [call for call in calls if call["status"] == "success"]
        if good:
            steps = tuple(Step(f"mcp:tau:{call['tool_name']}", call["input_size"] + 30) for call in good)
            results = tuple(call["output_size"] for call in good)
            tasks.append(Task(str(number), steps, tools, SYSTEM_CHARS, lambda results=results: Replay(results)))
    return [World("tau-bench recordings", tuple(tasks))]
