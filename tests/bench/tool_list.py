"""What an outage of an hour costs in tokens, by the list of tools that a model sees.

Five processes run one scripted agent each. A sixth one, a program, calls the broken tool every 25 s if it may, so a probe fails about
every 75 s. An agent works in sessions of half an hour, and takes a turn every 15 s: it calls a tool, and every eighth time the broken one,
if it is offered. The prices are those of :mod:`tests.bench.benefit.tokens`.

python -m tests.bench.tool_list     print the table of docs/decisions/tool-list.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from switchgear import BreakerPolicy, Rejection, Switchgear
from switchgear.testing import InMemoryFleet
from switchgear.tool_list import ToolList
from tests.bench.benefit.tokens import Conversation, SharedCache, Spent

BROKEN: Final = "mcp:search:web"
TOOLS: Final = (BROKEN, *(f"mcp:server:tool{number}" for number in range(19)))
TOOL_CHARS: Final = 600
"""The declaration of a tool: its name, description and schema."""
SYSTEM_CHARS: Final = 4_000
RESULT_CHARS: Final = 800
CALL_CHARS: Final = 160
AGENTS: Final = 5
STEP_S: Final = 5
TURN_S: Final = 15
PROGRAM_S: Final = 25
SESSION_S: Final = 1_800
BEGINS_S: Final = 600
ENDS_S: Final = 4_200
"""The outage."""
RUN_S: Final = 5_400
POLICY: Final = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60)
Mode = Literal["every probe", ToolList]
"""``every probe``: a tool is in the list whenever a call of it would not be refused, as before there were these modes."""


@dataclass
class Cost:
    """What the agents of one run cost.

    Attributes:
        spent: The tokens of all agents.
        changes: Changes of lists that models had seen, by process.
        counted: The same, as the processes' clients count them.
        refused: Calls of models that were refused.
        back_s: Seconds from the end of the outage until every model is offered the tool, or None.
    """

    spent: Spent = field(default_factory=Spent)
    changes: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    refused: int = 0
    back_s: float | None = None


class Agent:
    """A scripted agent, in a process of its own."""

    def __init__(self, name: str, gear: Switchgear, mode: Mode, cache: SharedCache) -> None:
        self.gear = gear
        self._name = name
        self._mode = mode
        self._cache = cache
        self._turns = 0
        self._listed: tuple[str, ...] = ()
        self.changes = self.refused = 0
        self.spent = Spent()

    def begin(self, number: int) -> None:
        """Begin a session."""
        self._session = f"{self._name}-{number}"
        self._listed = ()
        self.conversation = Conversation(self._cache, SYSTEM_CHARS)
        self.conversation.spent = self.spent

    def offered(self) -> Sequence[str]:
        """Return the list that the model sees now."""
        if self._mode == "every probe":
            return [tool for tool in TOOLS if not self.gear.is_open(tool)]
        return self.gear.available(TOOLS, session_id=self._session)

    def turn(self, now: float, *, down: bool) -> None:
        """Let the model take a turn, and make the call that it asks for."""
        offered = tuple(self.offered())
        self.changes += bool(self._listed) and offered != self._listed
        self._listed = offered
        said = self.gear.outage_message(self._session, tools=TOOLS)
        self.conversation.say(len(said))
        self.conversation.turn(now, offered, TOOL_CHARS * len(offered), "", CALL_CHARS)
        self._turns += 1
        tool = BROKEN if self._turns % 8 == 0 and BROKEN in offered else TOOLS[1 + self._turns % 19]
        self.conversation.say(self._call(tool, down=down and tool == BROKEN))

    def _call(self, tool: str, *, down: bool) -> int:
        """Make a call. Return the length of what the model reads."""
        permit = self.gear.try_acquire(tool)
        if isinstance(permit, Rejection):
            self.refused += 1
            return len(permit.text)
        if down:
            permit.failure(ConnectionError("refused"))
        else:
            permit.success()
        return RESULT_CHARS


def run(mode: Mode, *, others: bool = True, seconds: int = RUN_S) -> Cost:
    """Run the outage.

    Args:
        mode: The list that models see.
        others: A program calls the broken tool, too. Without it only models do, which call what they are offered.
        seconds: How long.
    """
    fleet, cache = InMemoryFleet(POLICY), SharedCache()
    options = {} if mode == "every probe" else {"tool_list": mode}
    agents = [Agent(f"agent{n}", fleet.gear(f"agent{n}", **options), mode, cache) for n in range(AGENTS)]
    program, cost = fleet.gear("program"), Cost()
    for now in range(0, seconds, STEP_S):
        down = BEGINS_S <= now < ENDS_S
        if others and now % PROGRAM_S == 0 and (permit := program.try_acquire(BROKEN)):
            if down:
                permit.failure(ConnectionError("refused"))
            else:
                permit.success()
        for number, agent in enumerate(agents):
            if now % SESSION_S == 0:
                agent.begin(now // SESSION_S)
            if (now // STEP_S - number) % (TURN_S // STEP_S) == 0:
                agent.turn(now, down=down)
        if cost.back_s is None and now >= ENDS_S and all(BROKEN in agent.offered() for agent in agents):
            cost.back_s = now - ENDS_S
        fleet.advance(STEP_S)
    for agent in agents:
        cost.spent.add(agent.spent)
        cost.changes.append(agent.changes)
        cost.counted.append(agent.gear.status().tool_list_changes)
        cost.refused += agent.refused
    return cost


def main() -> None:
    """Print the table."""
    print("| list | changes a process | read | written | written again | billed | refused calls |")
    print("|---|---|---|---|---|---|---|")
    for mode in get_args(Mode):
        cost = run(mode)
        spent = cost.spent
        cells = (max(cost.changes), spent.read, spent.written, spent.rewritten, round(spent.billed), cost.refused)
        print(f"| `{mode}` | {' | '.join(f'{cell:,}' for cell in cells)} |")


if __name__ == "__main__":
    main()
