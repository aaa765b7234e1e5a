"""An agent loop with a tool that breaks and recovers. Run ``python examples/agent_loop.py``; it needs no key and no network.

The model is scripted. Everything else is what a real loop does in each turn: offer the tools, append what there is to say about
outages to the conversation, run the tool that the model picks behind its circuit, and give the result to the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from switchgear import BreakerPolicy, CircuitChange, CircuitOpenError, FunctionHooks, Switchgear

COOLDOWN_S = 2.0
THINKING_S = 0.1


def print_change(change: CircuitChange) -> None:
    """Print a change of a circuit, as an operator's log would show it."""
    print(f"        circuit {change.tool}: {change.previous} -> {change.state}")


gear = Switchgear.local(
    local_policies=BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=COOLDOWN_S),
    hooks=[FunctionHooks(on_transition=print_change)],
)

# -- the tools --------------------------------------------------------------------------------------------------------


@dataclass
class SearchEngine:
    """A service of another team."""

    up: bool = False
    failed: int = 0
    answered: int = 0

    def search(self, query: str) -> str:
        """Answer, or fail like a client whose server is down."""
        if not self.up:
            self.failed += 1
            raise ConnectionError("search.example refused the connection")
        self.answered += 1
        return f"{query}: open 9 to 18"


engine = SearchEngine()


@gear.guard("mcp:search:web", fallback="mcp:archive:search")
def web_search(query: str) -> str:
    """Search the web."""
    return engine.search(query)


@gear.guard("mcp:archive:search")
def archive_search(query: str) -> str:
    """Search last month's pages."""
    return f"{query}: open 9 to 17 (last month)"


TOOLS: dict[str, Callable[[str], str]] = {"web_search": web_search, "archive_search": archive_search}
NAMES = {"mcp:search:web": "web_search", "mcp:archive:search": "archive_search"}  # the model's names

# -- the model, scripted ----------------------------------------------------------------------------------------------


@dataclass
class Model:
    """A model that asks for one museum after the other. It tries a failed tool again, and ignores a message once."""

    museums: list[str] = field(default_factory=lambda: ["Louvre", "Prado", "Uffizi", "Tate"])
    found: list[str] = field(default_factory=list)
    avoids: int = 0
    """How many more calls it leaves out the first tool, after it has ignored the message once."""

    def turn(self, offered: list[str], message: str) -> tuple[str, str] | None:
        """Return the tool to call and its argument, or None when the task is done."""
        if len(self.found) == len(self.museums):
            return None
        wanted = self.museums[len(self.found)]
        if message:
            self.avoids = 1
        elif self.avoids:
            self.avoids -= 1
            return offered[1], wanted
        return offered[0], wanted

    def observe(self, observation: str) -> None:
        """Take the result of the call, or an error."""
        if ": open " in observation:
            self.found.append(observation)


# -- the loop ---------------------------------------------------------------------------------------------------------


def run(tool: str, argument: str) -> str:
    """Call a tool for the model, and return a text for the model."""
    try:
        answer = gear.answer(TOOLS[tool], argument)
    except CircuitOpenError as refused:
        return refused.text
    except ConnectionError as error:
        return f"{tool} failed: {error}"
    return answer.value if answer.served_by == "call" else f"{answer.value} [from {answer.tool}]"


def main() -> None:
    """Run the loop: the tool fails, its circuit opens, the fallback answers, a probe succeeds."""
    model = Model()
    for number in range(1, 20):
        time.sleep(THINKING_S)
        offered = [NAMES[circuit] for circuit in gear.available(list(NAMES))]
        message = gear.outage_message(name_of=NAMES)
        print(f"turn {number}  offered: {', '.join(offered)}")
        if message:
            print(f"        message: {message}")
        picked = model.turn(offered, message)
        if picked is None:
            break
        observation = run(*picked)
        print(f"        {picked[0]}({picked[1]!r}) -> {observation}")
        model.observe(observation)
        if len(model.found) == 2 and not engine.up:
            print("        ... the search engine is repaired, and the cooldown passes ...")
            engine.up = True
            time.sleep(COOLDOWN_S)
    print("answer:", *model.found, sep="\n  ")
    print(f"the broken engine was called {engine.failed} times, the repaired one {engine.answered} times")


if __name__ == "__main__":
    main()
