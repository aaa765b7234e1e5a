"""The histories that ``evidence_rules`` replays: real calls of agents and of a microservice shop, with a clock.

The agents' files have no clock, so one is made: each run several times in a seeded order, twenty agents at a time, and every half
second the next call of one of them. The shop's calls have their own times.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from switchgear_api.replay.history import read_history
from switchgear_schemas.wire import Execution, decode_execution

AGENTS: Final = 20
"""Agents at a time, each in a process of its own."""
STEP_S: Final = 0.5
TIMES: Final = 5
"""How often each run is replayed."""
SEED: Final = 36
_TEXT: Final = re.compile(r"""text=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
OUTAGES: Final = (
    "INTERNAL_ERROR",
    "fetch failed",
    "Failed to launch the browser",
    "is not defined in the configuration",
)
"""What the errors in the agents' files say that are no answers about the arguments. We have read all 87 of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call.

    Attributes:
        began: When it began. Where the history has times, in seconds since 1970, else from the first call on.
        seconds: How long it took. 0 where the history doesn't say it.
        process: The process that made it.
        waits: Who waits for it: an agent, or a request to the shop. As long as it hangs, that one makes no other call.
        error: The text of a failed call, else empty.
    """

    began: float
    tool: str
    seconds: float
    process: str
    waits: str
    session: str
    arguments: str = ""
    error: str = ""

    @property
    def ended(self) -> float:
        return self.began + self.seconds

    @property
    def says_healthy(self) -> bool:
        """Return whether the call says that the tool works: it succeeded, or the tool answered what is wrong with its arguments."""
        return not any(text in self.error for text in OUTAGES)


def agent_calls(history: Path, *, times: int = TIMES, seed: int = SEED) -> list[Call]:
    """Return the calls of agent runs with a made-up clock, in the order in which they are made."""
    runs: dict[str, list[Execution]] = {}
    for line in read_history(history):
        assert line.event is not None, f"line {line.number} of {history} is no execution: {line.reason}"
        runs.setdefault(line.event.session_id or "", []).append(line.event)
    draw = random.Random(seed)
    waiting = [(f"{number}-{session}", run) for number in range(times) for session, run in runs.items()]
    draw.shuffle(waiting)
    agents: dict[str, tuple[str, list[Execution]]] = {}
    found: list[Call] = []
    for number in range(min(AGENTS, len(waiting))):
        agents[f"agent-{number}"] = _next_run(waiting)
    while agents:
        agent = draw.choice(list(agents))
        session, run = agents[agent]
        event = run.pop(0)
        error = _text(event.error_message) if event.status != "success" else ""
        began = len(found) * STEP_S
        found.append(Call(began, event.tool_name, 0.0, agent, agent, session, event.parameters_hash or "", error))
        if run:
            continue
        if waiting:
            agents[agent] = _next_run(waiting)
        else:
            del agents[agent]
    return found


def shop_calls(history: Path) -> list[Call]:
    """Return the calls of the microservice shop, in the order in which they ended. A pod is a process, a trace one that waits."""
    found = []
    for line in read_history(history):
        event = decode_execution(line.raw)
        assert event.recorded_s is not None
        seconds = (event.execution_time_ms or 0.0) / 1000
        session = event.session_id or ""
        found.append(Call(event.recorded_s - seconds, event.tool_name, seconds, event.user_id or "", session, session))
    return found


def busiest(calls: Iterable[Call], most: int) -> list[str]:
    """Return the names of the tools with the most calls."""
    return [tool for tool, _ in Counter(call.tool for call in calls).most_common(most)]


def _next_run(waiting: list[tuple[str, list[Execution]]]) -> tuple[str, list[Execution]]:
    session, run = waiting.pop()
    return session, list(run)


def _text(message: str | None) -> str:
    """Return the text of a failed result, without the notation of Python in which one file keeps it."""
    found = _TEXT.search(message or "")
    text: str = ast.literal_eval(found[1]) if found else message or ""
    return text or "failed"
