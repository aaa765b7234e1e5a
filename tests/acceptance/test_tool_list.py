"""What a model sees, by the scenarios that the TypeScript client passes too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchgear.guard.families import family_finder
from switchgear.prompts import Down, NoticeBoard, Unavailable, message, notice
from switchgear.tool_list import Condition, Session, ToolLists
from tests.support.clock import Clock

FILE = Path(__file__).with_name("tool_list_scenarios.json")
SCENARIOS = json.loads(FILE.read_text())["scenarios"]
SEEN = {
    "up": Condition(),
    "refuses": Condition(down=True, refuses=True),
    "due": Condition(down=True, probe="due"),
    "held": Condition(down=True, probe="held"),
    "probed": Condition(down=True),
}


class Player:
    """Plays the steps of one scenario."""

    def __init__(self, mode: Any, hide_after_s: float) -> None:
        self.clock = Clock(0.0)
        self.lists = ToolLists(mode, hide_after_s, self.clock)
        self.board = NoticeBoard(self.clock, self.clock, family_finder(""))

    def play(self, step: dict[str, Any]) -> None:
        """Play a step and compare what it expects."""
        self.clock.now = step["t"]
        if step["op"] == "list":
            self._list(step)
        else:
            assert self._text(step) == step["text"], step

    def _list(self, step: dict[str, Any]) -> None:
        asked: list[str] = []

        def condition(tool: str, own: bool) -> Condition:
            return SEEN[step["own" if own else "seen"][tool]]

        def ask(tool: str, _own: bool) -> bool:
            asked.append(tool)
            return tool in step.get("alone", ())

        names = list(step["seen"])
        offered = self.lists.offered(names, Session(step.get("session", ""), "own" in step), condition, ask)
        assert [name for name, is_offered in zip(names, offered, strict=True) if is_offered] == step["offered"], step
        assert asked == step.get("asks", asked), step
        assert self.lists.changes == step.get("changes", self.lists.changes), step

    def _text(self, step: dict[str, Any]) -> str:
        down = Down(tuple(Unavailable(tool) for tool in step["down"]))
        before, after = self.board.settled((step["place"], step.get("session", "")), down)
        return notice(after.tools) if step["place"] == "notice" else message(before, after)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each["id"])
def test_scenario(scenario: dict[str, Any]) -> None:
    player = Player(**scenario["config"])
    for step in scenario["steps"]:
        player.play(step)
