"""A bound method has its object already: all of its arguments are parameters, under every option."""

from __future__ import annotations

import asyncio
import functools
from unittest.mock import AsyncMock

import pytest

from switchgear import CachePolicy, DuplicateCallError, Switchgear
from switchgear.guard.tool_function import examine

KEPT = CachePolicy(ttl_s=60)


class Weather:
    def get(self, city):
        return f"sun in {city}"

    async def aget(self, city):
        await asyncio.sleep(0.01)
        return f"sun in {city}"

    @classmethod
    def of_class(cls, city):
        return f"{cls.__name__}: sun in {city}"


@pytest.mark.parametrize("method", [Weather().get, Weather.of_class])
def test_different_arguments_of_a_cached_bound_method_have_different_answers(gear, method):
    get = gear.guard("w", cache=KEPT)(method)
    assert get("Oslo") != get("Bergen")


def test_different_calls_of_a_bound_method_are_not_duplicates(gear):
    get = gear.guard("w", on_duplicate="refuse")(Weather().get)
    assert [get(city)[-1] for city in "abc"] == list("abc")
    get("a")
    with pytest.raises(DuplicateCallError):
        get("a")


async def test_different_calls_of_a_bound_method_do_not_share_a_flight(gear):
    get = gear.guard("w", single_flight=True)(Weather().aget)
    assert await asyncio.gather(get("a"), get("b")) == ["sun in a", "sun in b"]


def test_a_bound_method_stands_in_as_a_fallback_tool(gear, open_circuit):
    gear.guard("b")(Weather().get)
    get = gear.guard("a", fallback="b")(lambda city: f"rain in {city}")
    open_circuit("a")
    assert get("Oslo") == "sun in Oslo"


def test_parameters_of_a_bound_method_are_all_of_its_arguments(gear):
    seen = []
    gear.guard("w", cache=KEPT, parameters=lambda *args: seen.append(args))(Weather().get)("Oslo")
    assert seen == [("Oslo",)]


def test_the_parameters_of_a_bound_method_have_the_hash_of_the_plain_function():
    gear = Switchgear.local(parameters_key=b"k")

    def get(city):
        return city

    plain, bound = gear.guard("w")(get), gear.guard("w")(Weather().get)
    hashes = []
    gear._decision.reporter.report = lambda permit, _report: hashes.append(permit.parameters_hash)
    for each in (plain, bound):
        each("Oslo")
    assert len(set(hashes)) == 1
    assert hashes[0]


def test_a_method_under_a_decorator_is_still_a_method():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    class Tools:
        @logged
        def get(self, city):
            return city

        @staticmethod
        @logged
        def of_none(city):
            return city

    assert examine(Tools.get).receiver
    assert not examine(Tools().get).receiver
    assert not examine(Tools.of_none).receiver


async def test_a_function_marked_as_a_coroutine_function_is_one(gear):
    down = gear.guard("t")(AsyncMock(side_effect=ConnectionError("down")))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await down()
    assert gear.is_open("t")
