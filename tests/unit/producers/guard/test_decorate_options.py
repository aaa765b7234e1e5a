"""What can't be guarded, and options that can't be used, are rejected with a message that says what to do."""

from __future__ import annotations

import functools

import pytest

from switchgear import BreakerPolicy, CachePolicy, GuardOptions, OptionError, Switchgear
from tests.support.table import table


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (property(lambda self: self), "Put guard directly above the function, below @property"),
        (functools.cached_property(lambda self: self), "Put guard directly above the function"),
        (functools.partialmethod(print, 1), "not functools.partialmethod"),
        (BreakerPolicy, "BreakerPolicy'>. Guard a function"),
        ("Oslo", "must be a function, not 'Oslo'"),
    ],
)
def test_rejects_an_object_that_is_not_a_function_and_says_what_to_do(gear, what, said):
    with pytest.raises(OptionError) as caught:
        gear.guard("t")(what)
    assert said in str(caught.value)


def test_guard_below_property_is_a_guarded_property(gear, open_circuit):
    class Weather:
        @property
        @gear.guard("t", fallback=lambda: "unknown")
        def now(self):
            return "sunny"

    assert Weather().now == "sunny"
    open_circuit("t")
    assert Weather().now == "unknown"


def test_a_built_in_class_can_be_guarded(gear):
    assert gear.guard("t")(str)(3) == "3"


async def awaited(*_args):
    """It is never awaited."""


def iterated(*_args):
    yield 1


class Awaited:
    async def __call__(self, *_args):
        """It is never awaited."""


@pytest.mark.parametrize("name", ["usage", "classify", "classify_result", "parameters", "on_duplicate", "adapt"])
@pytest.mark.parametrize("function", [awaited, iterated, Awaited(), functools.partial(awaited, 1)])
def test_rejects_an_option_function_whose_result_would_have_to_be_awaited(gear, name, function):
    for value in (function, {"b": function}) if name == "adapt" else (function,):
        with pytest.raises(OptionError, match=f"The option {name} must be a plain function"):
            gear.guard("t", **{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 1e10},
        {"timeout": 10**400},
        {"timeout": float("nan")},
        {"single_flight": "no"},
        {"single_flight": 1},
        {"cache": CachePolicy},
        {"adapt": {3: print}},
        {"fallback": {"b", "c"}},
    ],
)
def test_rejects_a_value_that_no_call_could_use(gear, options):
    (name,) = options
    with pytest.raises(OptionError, match=f"option {name} "):
        gear.guard("t", **options)


@pytest.mark.parametrize(
    ("function", "fallback"),
    [(lambda: 1, awaited), (lambda: 1, iterated), (awaited, iterated), (iterated, awaited)],
)
def test_rejects_a_fallback_function_of_the_wrong_kind_and_leaves_out_a_default_one(gear, function, fallback):
    with pytest.raises(OptionError, match="The fallback of t can't be a "):
        gear.guard("t", fallback=fallback)(function)
    with pytest.raises(OptionError, match="The fallback of t can't be a "):
        gear.guard("t", fallback=gear.guard("u")(fallback))(function)
    defaults = Switchgear.local(defaults=GuardOptions(fallback=fallback))
    assert defaults.guard("t")(function) is not None


def test_a_fallback_of_the_wrong_kind_for_a_call_is_skipped_with_a_warning(gear, open_circuit, caplog):
    open_circuit("t")
    with pytest.raises(Exception, match=r"The tool t is unavailable \(circuit open\)"):
        gear.with_options(fallback=awaited).call("t", print)
    assert "awaited can't stand in for t: a coroutine in place of a function" in caplog.text


@table("given", [0, "8", None, 1.5, True])
def test_rejects_an_impossible_number_of_threads(given):
    with pytest.raises(OptionError, match="timed_threads must be a"):
        Switchgear.local(timed_threads=given)
