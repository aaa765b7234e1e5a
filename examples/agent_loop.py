# ruff: noqa: INP001 - scripts, no package
"""An agent loop around a tool that breaks and recovers: ``python examples/agent_loop.py``, no key and no network needed.

The model is scripted, all the rest is what a real loop does each turn: offer the tools that work, put the notice into the system
prompt, run the tool that the model picks behind its circuit, and tell the model what came of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from switchgear import BreakerPolicy, CircuitChange, CircuitOpenError, FunctionHooks, Switchgear

COOLDOWN_S = 2.0
THINKING_S = 0.1


def told(change: CircuitChange) -> None:
    """What an operator's log would show."""
    print(f"        circuit {change.tool}: {change.previous} -> {change.state}")


gear = Switchgear.local(
    local_policies=BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=COOLDOWN_S),
    hooks=[FunctionHooks(on_transition=told)],
)

# -- the tools --------------------------------------------------------------------------------------------------------


@dataclass
class SearchEngine:
    """A service that somebody else runs."""

    up: bool = False
    failed: int = 0
    answered: int = 0

    def search(self, query: str) -> str:
        """Answer, or fail as a client of a dead server does."""
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
NAMES = {"mcp:search:web": "web_search", "mcp:archive:search": "archive_search"}  # as the model knows them

# -- the model, scripted ----------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Asks for one museum after the other. Like many a model it tries a failed tool again, and once ignores the prompt."""

    museums: list[str] = field(default_factory=lambda: ["Louvre", "Prado", "Uffizi", "Tate"])
    found: list[str] = field(default_factory=list)
    stubborn: bool = True

    def turn(self, offered: list[str], notice: str) -> tuple[str, str] | None:
        """The tool to call and its argument; None when the task is done."""
        if len(self.found) == len(self.museums):
            return None
        wanted = self.museums[len(self.found)]
        if notice and self.stubborn:
            self.stubborn = False
            return "web_search", wanted
        return offered[0], wanted

    def told(self, observation: str) -> None:
        """The result of the call, or an error."""
        if ": open " in observation:
            self.found.append(observation)


# -- the loop ---------------------------------------------------------------------------------------------------------


def run(tool: str, argument: str) -> str:
    """Call a tool for the model; what comes back is text for the model in any case."""
    try:
        answer = gear.answer(TOOLS[tool], argument)
    except CircuitOpenError as refused:
        return refused.text
    except ConnectionError as error:
        return f"{tool} failed: {error}"
    return answer.value if answer.served_by == "call" else f"{answer.value} [from {answer.tool}]"


def main() -> None:
    """Fail, open, fall back, notice, probe, recover."""
    model = Model()
    for number in range(1, 20):
        time.sleep(THINKING_S)
        offered = [NAMES[circuit] for circuit in gear.available(list(NAMES))]
        notice = gear.notice(name_of=NAMES)
        print(f"turn {number}  offered: {', '.join(offered)}")
        if notice:
            print(f"        prompt: {notice}")
        picked = model.turn(offered, notice)
        if picked is None:
            break
        observation = run(*picked)
        print(f"        {picked[0]}({picked[1]!r}) -> {observation}")
        model.told(observation)
        if len(model.found) == 2 and not engine.up:
            print("        ... somebody repairs the search engine, and the cooldown passes ...")
            engine.up = True
            time.sleep(COOLDOWN_S)
    print("answer:", *model.found, sep="\n  ")
    print(f"the broken engine was called {engine.failed} times, the repaired one {engine.answered} times")


if __name__ == "__main__":
    main()
