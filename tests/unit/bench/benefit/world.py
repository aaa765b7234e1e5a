"""A small world: tasks of three calls. One tool can break."""

from __future__ import annotations

from tests.bench.benefit.tasks import Replay, Step, Task, World

TARGET = "mcp:shop:order"
OTHERS = ("mcp:shop:find", "mcp:post:send")


def small_world() -> World:
    """Return a world in which every task uses the same three tools, so any of them may break."""
    tools = dict.fromkeys((OTHERS[0], TARGET, OTHERS[1]), 400)
    steps = tuple(Step(tool, 80, 40) for tool in tools)
    return World(
        "small", tuple(Task(str(number), steps, tools, 800, lambda: Replay((100,) * 3)) for number in range(7))
    )
