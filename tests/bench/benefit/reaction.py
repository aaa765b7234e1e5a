"""How a simulated agent reacts to an error and to a refusal. Published here, swept in the report, never tuned.

Measured on the 73 errors in the recorded runs of tau-bench's airline agent (gpt-4o): the next call was of the same tool after 29 of
the 69 errors that were not the last call of their run, which is 0.42. After 34 it came back to the tool after one to three other
calls, after 6 it never did. 4 of the 73 errors ended the run. Most of these errors were the agent's own, and it changed the arguments
in 26 of the 29. How often a model obeys a refusal, or can wait, can't be measured on these recordings.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, Literal

Next = Literal["again", "later", "leave", "end", "wait"]
"""What the agent does now: the same call again, another call first, go on without the step, end the task, or wait as told."""

ERRORS: Final = 73
AGAIN: Final = 29
CAME_BACK: Final = 34
LEFT: Final = 6
ENDED: Final = 4


@dataclass(frozen=True, slots=True)
class Reaction:
    """One model of an agent.

    Attributes:
        again: After an error that doesn't end the task, the share of agents whose next call is the same.
        later: Of the others, the share that comes back after another call. The rest goes on without the step.
        end: The share of errors that end the task.
        obeys: The share of refusals that the agent obeys. Else it reacts as to an error.
        waits: Of the obeyed refusals that name a time, the share after which the agent waits so long and calls again. It goes on
            without the step after the others, because most agents have nothing to wait with.
        tries: The agent calls for one step at most so often. In the recordings the longest run of errors was four.
        patience_s: It waits no longer than this.
    """

    again: float = round(AGAIN / (ERRORS - ENDED), 2)
    later: float = round(CAME_BACK / (CAME_BACK + LEFT), 2)
    end: float = round(ENDED / ERRORS, 3)
    obeys: float = 0.9
    waits: float = 0.0
    tries: int = 5
    patience_s: float = 60.0

    def after_error(self, tries: int, rng: Random) -> Next:
        """Return what the agent does after its ``tries``-th call for a step has failed."""
        ends, again, later = rng.random(), rng.random(), rng.random()
        if ends < self.end:
            return "end"
        if tries >= self.tries:
            return "leave"
        if again < self.again:
            return "again"
        return "later" if later < self.later else "leave"

    def after_refusal(self, tries: int, wait_s: float | None, rng: Random) -> Next:
        """Return what the agent does after a refusal, which may name a time to wait."""
        obeys, waits = rng.random(), rng.random()
        if obeys >= self.obeys:
            return self.after_error(tries, rng)
        may_wait = wait_s is not None and wait_s <= self.patience_s and tries < self.tries
        return "wait" if may_wait and waits < self.waits else "leave"

    def words(self) -> str:
        """Return the parameters in short."""
        return f"again {self.again:g}, obeys {self.obeys:g}, waits {self.waits:g}, tries {self.tries}"


DEFAULT: Final = Reaction()
P_AND_Q: Final = tuple(Reaction(again=again, obeys=obeys) for again in (0.42, 0.7, 0.9) for obeys in (0.5, 0.9, 1.0))
"""Every pair of the two parameters about which least is known."""
OTHERS: Final = (Reaction(waits=0.5), Reaction(waits=1.0), Reaction(tries=3), Reaction(tries=10))
"""One other parameter at a time."""
