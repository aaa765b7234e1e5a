"""Guards within the tool objects of agent frameworks."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

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


class InField(BaseModel):
    """As LangChain's StructuredTool."""

    name: str = "forecast"
    func: Any = None


class InPrivateAttribute(BaseModel):
    name: str = "forecast"
    _func: Any = PrivateAttr(None)

    def __init__(self, func):
        super().__init__()
        self._func = func


class InExtraField(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = "forecast"


class OnClass(BaseModel):
    name: str = "forecast"
    inner: Any = None

    @property
    def fn(self):
        return self.inner


class OnBase(OnClass):
    pass


class Computed(BaseModel):
    """An object that stands for another one."""

    name: str = "forecast"
    inner: Any = None

    def __getattr__(self, name):
        if name == "handler":
            return self.inner
        return super().__getattr__(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda function: InField(func=function),
        InPrivateAttribute,
        lambda function: InExtraField(handler=function),
        lambda function: OnClass(inner=function),
        lambda function: OnBase(inner=function),
        lambda function: Computed(inner=function),
    ],
    ids=["field", "private attribute", "extra field", "property", "property of a base", "computed"],
)
def test_guard_within_an_object_of_pydantic_is_seen_wherever_the_object_keeps_it(make):
    gear = Switchgear.local()
    guarded = gear.guard("weather")(lambda: "sunny")
    found = guarded_inside(make(guarded))
    assert found is not None
    assert found.plan.tool == "weather"
    assert guarded_inside(make(lambda: "sunny")) is None


def test_object_of_pydantic_is_not_asked_for_each_name_that_it_lacks(monkeypatch):
    asked = []
    missing = BaseModel.__getattr__

    def noting(self, name):
        asked.append(name)
        return missing(self, name)

    monkeypatch.setattr(BaseModel, "__getattr__", noting)
    tool = InField()
    assert Switchgear.local().available([tool]) == [tool]
    assert set(asked) <= {"__pydantic_private__", "__pydantic_extra__"}
