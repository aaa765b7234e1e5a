"""Functions, methods, partials and objects keep what they are behind a guard."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest

from switchgear import SwitchgearError


class Client:
    """Has its methods guarded by each test's own client."""

    def __init__(self, name):
        self.name = name

    def get(self, path: str = "/") -> tuple:
        """Get a path."""
        return self.name, path

    async def aget(self, path):
        return self.name, path

    def __call__(self, path):
        return self.name, path


class AsyncClient:
    async def __call__(self, path):
        await asyncio.sleep(0)
        return path


def test_names_docs_and_signature_stay_whatever_the_options(gear):
    def forecast(city: str, *, days: int = 1) -> str:
        """Look it up."""
        return city * days

    for guarded in (gear.guard("t")(forecast), gear.guard("t", timeout=5)(forecast)):
        assert (guarded.__name__, guarded.__doc__, guarded.__module__) == ("forecast", "Look it up.", __name__)
        assert inspect.signature(guarded) == inspect.signature(forecast)
        assert guarded.__annotations__ == forecast.__annotations__
        assert guarded("a", days=2) == "aa"


def test_the_kind_stays_whatever_the_options(gear):
    async def coroutine():
        """Nothing."""

    def generator():
        yield

    async def async_generator():
        yield

    for options in ({}, {"fallback": "other"}):
        assert inspect.iscoroutinefunction(gear.guard("t", **options)(coroutine))
        assert inspect.isgeneratorfunction(gear.guard("t", **options)(generator))
        assert inspect.isasyncgenfunction(gear.guard("t", **options)(async_generator))


def test_methods_static_and_class_methods_are_guarded_above_and_below_their_decorator(gear):
    class Tools:
        @gear.guard("plain")
        def plain(self, x):
            return self, x

        @staticmethod
        @gear.guard("static-above")
        def static_above(x):
            return x

        @gear.guard("static-below")
        @staticmethod
        def static_below(x):
            return x

        @classmethod
        @gear.guard("class-above")
        def class_above(cls, x):
            return cls, x

        @gear.guard("class-below")
        @classmethod
        def class_below(cls, x):
            return cls, x

    tools = Tools()
    assert tools.plain(1) == (tools, 1)
    assert (Tools.static_above(1), tools.static_below(2)) == (1, 2)
    assert (Tools.class_above(1), tools.class_below(2)) == ((Tools, 1), (Tools, 2))
    assert Tools.plain.__qualname__.endswith("Tools.plain")


def test_an_object_that_is_called_is_guarded_by_its_class_name(gear):
    guarded = gear.guard("t")(Client("a"))
    assert (guarded("/x"), guarded.__name__) == (("a", "/x"), "Client")
    assert not hasattr(guarded, "name")


async def test_an_object_with_an_async_call_is_a_coroutine_function(gear):
    guarded = gear.guard("t")(AsyncClient())
    assert inspect.iscoroutinefunction(guarded)
    assert await guarded("/x") == "/x"


async def test_a_partial_of_a_coroutine_function_is_one(gear):
    guarded = gear.guard("t")(functools.partial(AsyncClient.__call__, AsyncClient()))
    assert inspect.iscoroutinefunction(guarded)
    assert await guarded("/x") == "/x"
    assert gear.guard("t")(functools.partial(max, 3))(4) == 4


def test_the_object_of_a_method_is_not_a_parameter_of_the_call(gear):
    seen = []

    class Tools:
        def __init__(self, name):
            self.name = name

        @gear.guard("t", parameters=lambda *args, **kwargs: seen.append((args, kwargs)), single_flight=True)
        def get(self, path, *, page=1):
            return self.name, path, page

    assert Tools("a").get("/x", page=2) == ("a", "/x", 2)
    assert seen == [(("/x",), {"page": 2})]


def test_a_guarded_function_may_be_guarded_again_under_another_name(gear, open_circuit):
    guarded = gear.guard("outer")(gear.guard("inner")(lambda: 1))
    assert guarded() == 1
    open_circuit("inner")
    with pytest.raises(SwitchgearError, match="The tool inner is unavailable"):
        guarded()


async def test_acall_awaits_what_a_plain_function_returns(gear):
    assert await gear.acall("t", lambda: asyncio.sleep(0, "x")) == "x"
