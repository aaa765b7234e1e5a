"""Guards within the tool objects of agent frameworks."""

from __future__ import annotations

import inspect

from switchgear import BreakerPolicy, Switchgear
from switchgear.guard.tool_function import guarded_inside


class DescriptorTool:
    """A tool object that is also a descriptor, as Agent Framework's FunctionTool is, for methods."""

    name = "forecast"

    def __init__(self, func):
        self.func = func

    def __call__(self):
        return self.func()

    def __get__(self, obj, owner=None):
        return self


def test_guard_within_a_tool_object_that_is_a_descriptor_is_seen():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), tool_list="hide", hide_after_s=0)
    tool = DescriptorTool(gear.guard("weather")(lambda: "sunny"))
    assert inspect.isroutine(tool)
    found = guarded_inside(tool)
    assert found is not None
    assert found.plan.tool == "weather"
    gear.try_acquire("weather").failure(ConnectionError("down"))
    assert gear.available([tool]) == []
