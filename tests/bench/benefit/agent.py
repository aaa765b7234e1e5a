"""A simulated agent: it makes the calls of its tasks, and reacts to errors and refusals as :mod:`reaction` says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.bench.benefit.arms.arm import Make, RefusedError, ToolCaller
from tests.bench.benefit.reaction import Next, Reaction
from tests.bench.benefit.shared_tools import SharedTools
from tests.bench.benefit.tasks import Task
from tests.bench.benefit.tokens import Conversation, SharedCache, Spent

FIRST_TOKEN_S: Final = 1.0
"""A turn of the model takes this long, and then a second for every :data:`TOKENS_A_S` tokens."""
TOKENS_A_S: Final = 60
THOUGHT_CHARS: Final = 160
"""What the model says besides a call."""
ANSWER_CHARS: Final = 400
"""What it says at the end."""
OTHER_CALL_CHARS: Final = 300
"""Another call and its result, before it comes back to a tool that failed."""
WRONG_CHARS: Final = 40
"""The length of a wrong answer."""


@dataclass(slots=True)
class Result:
    """How a task went.

    Attributes:
        done: Nothing is missing, and nothing is wrong.
        exposed: It came while a tool that it needs was broken. That is the same in every arm.
        seconds: From the time at which it came to its end.
        turns: Turns of the model.
        spent: Tokens.
    """

    done: bool
    exposed: bool
    seconds: float
    turns: int
    spent: Spent = field(default_factory=Spent)


class Agent:
    """One agent in a process of its own.

    Args:
        process: Makes its calls.
        tools: The tools that it shares with others.
        cache: What the model's provider keeps.
        reaction: How it reacts.
    """

    def __init__(self, process: ToolCaller, tools: SharedTools, cache: SharedCache, reaction: Reaction) -> None:
        self._process = process
        self._tools = tools
        self._cache = cache
        self._reaction = reaction
        self._now = asyncio.get_running_loop().time

    async def work(self, task: Task, came_at: float, rng: Random, *, exposed: bool) -> Result:
        """Work on a task until it is done or given up, and return how it went."""
        run = _Run(self, task, f"{task.task_id} at {came_at}", rng)
        for step in range(len(task.steps)):
            run.conversation.say(task.steps[step].said_chars)
            if not await run.carry_out(step):
                break
        await run.turn(ANSWER_CHARS)
        seconds = self._now() - came_at
        return Result(run.attempt.done(), exposed, seconds, run.turns, run.conversation.spent)


class _Run:
    """The state of one task."""

    def __init__(self, agent: Agent, task: Task, name: str, rng: Random) -> None:
        self._agent = agent
        self._task = task
        self._name = name
        self._rng = rng
        self._names = tuple(task.tools)
        self.attempt = task.attempt()
        self.conversation = Conversation(agent._cache, task.system_chars)
        self.turns = 0

    async def carry_out(self, step: int) -> bool:
        """Carry out a step, or go on without it. Return False if the agent ends the task."""
        tries = 0
        while True:
            tries += 1
            then = await self._try(step, tries)
            if then in {None, "leave"}:
                return True
            if then == "end":
                return False
            if then == "later":
                await self.turn(OTHER_CALL_CHARS)

    async def turn(self, chars: int) -> tuple[str, ...]:
        """Let the model write so many characters. Return the tools that it was offered."""
        agent, task = self._agent, self._task
        self.conversation.say(len(agent._process.message(self._names, self._name)))
        offered = tuple(agent._process.offered(self._names, self._name))
        listed = sum(task.tools[name] for name in offered)
        notice = agent._process.notice(self._names)
        written = self.conversation.turn(agent._now(), offered, listed, notice, THOUGHT_CHARS + chars)
        self.turns += 1
        await asyncio.sleep(FIRST_TOKEN_S + written / TOKENS_A_S)
        return offered

    def _make(self, number: int) -> Make:
        tools, attempt = self._agent._tools, self.attempt
        return lambda tool: tools.call(tool, attempt, lambda: attempt.make(number), WRONG_CHARS, self._rng)

    async def _try(self, number: int, tries: int) -> Next | None:
        """Call for a step once. Return how to go on; None if it is carried out."""
        agent, step = self._agent, self._task.steps[number]
        offered = await self.turn(step.call_chars)
        if step.tool not in offered:
            agent._tools.note_refusal(step.tool)
            return "leave"
        try:
            chars = await agent._process.call(step.tool, self._make(number))
        except RefusedError as refusal:
            agent._tools.note_refusal(step.tool)
            self.conversation.say(len(str(refusal)))
            then = agent._reaction.after_refusal(tries, refusal.wait_s, self._rng)
            if then == "wait":
                await asyncio.sleep(refusal.wait_s or 0.0)
            return then
        except Exception as error:  # noqa: BLE001 - the model gets whatever the tool's client raises
            self.conversation.say(len(str(error)))
            return agent._reaction.after_error(tries, self._rng)
        self.conversation.say(chars)
        return None
