"""Options are checked where they are given, by a sentence that names the option and the way out."""

from __future__ import annotations

import dataclasses

import pytest

from switchgear import (
    BreakerPolicy,
    CachePolicy,
    CircuitOpenError,
    GuardOptions,
    OptionError,
    Switchgear,
    SwitchgearError,
)
from switchgear.guard.options import Overrides


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("fallback", 3, "The option fallback must be a tool's name"),
        ("fallback", ["b", ""], "The option fallback must be a tool's name"),
        ("adapt", {"b": "not a function"}, "The option adapt must be a function"),
        ("timeout", 0, "The option timeout must be a number of seconds from 0.001 to 1e+09, not 0"),
        ("timeout", float("inf"), "The option timeout"),
        ("timeout", "5", "The option timeout"),
        ("timeout", True, "The option timeout"),
        ("cache", 60, "The option cache must be a CachePolicy, not 60. CachePolicy(ttl_s=60)"),
        ("on_duplicate", "ignore", "The option on_duplicate must be a function, not 'ignore'. Or \"refuse\"."),
        ("duplicate_after", 1, "The option duplicate_after"),
        ("usage", 3, "The option usage must be a function"),
        ("classify", "tool", "The option classify must be a function"),
        ("classify_result", True, "The option classify_result must be a function"),
        ("parameters", ["city"], "The option parameters must be a function"),
    ],
)
def test_rejects_a_value_out_of_range_and_names_the_option(gear, option, value, said):
    for give in (lambda: GuardOptions(**{option: value}), lambda: gear.guard("t", **{option: value})):
        with pytest.raises(OptionError) as caught:
            give()
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"), [("tiemout", "Did you mean timeout?"), ("xyzzy", "The options are fallback, adapt, timeout")]
)
def test_rejects_an_unknown_option_and_names_the_nearest_known_one(gear, name, hint):
    with pytest.raises(OptionError, match=f"A guard has no option {name}. {hint[:12]}") as caught:
        gear.with_options(**{name: 5})
    assert hint in str(caught.value)


def test_an_option_error_is_a_switchgear_error_and_a_value_error():
    assert issubclass(OptionError, SwitchgearError)
    assert issubclass(OptionError, ValueError)


def test_the_keywords_of_guard_are_the_fields_of_the_options():
    assert list(Overrides.__annotations__) == [field.name for field in dataclasses.fields(GuardOptions)]


def test_options_replace_the_defaults_of_the_client():
    gear = Switchgear.local(defaults=GuardOptions(timeout=5, duplicate_after=4))
    assert gear.options.timeout == 5
    assert gear.with_options(timeout=None).options == GuardOptions(duplicate_after=4)
    assert gear.with_options(duplicate_after=9).with_options(timeout=1).options == GuardOptions(
        timeout=1, duplicate_after=9
    )


def test_rejects_options_for_results_on_a_generator(gear):
    def numbers():
        yield 1

    for options in ({"cache": CachePolicy()}, {"single_flight": True}):
        with pytest.raises(OptionError, match=f"The option {next(iter(options))} can't be used"):
            gear.guard("t", **options)(numbers)


def test_rejects_a_time_limit_on_a_generator(gear):
    def numbers():
        yield 1

    with pytest.raises(OptionError, match="Make it an async generator"):
        gear.guard("t", timeout=1)(numbers)


def test_guard_rejects_what_can_not_be_called(gear):
    with pytest.raises(OptionError, match="must be a function, not 3"):
        gear.guard("t")(3)


def test_leaves_out_impossible_defaults_but_rejects_impossible_options():
    gear = Switchgear.local(defaults=GuardOptions(timeout=5, cache=CachePolicy(), single_flight=True))

    def numbers():
        yield 1

    assert list(gear.guard("t")(numbers)()) == [1]
    for options in ({"timeout": 5}, {"cache": CachePolicy()}, {"single_flight": True}):
        with pytest.raises(OptionError):
            gear.with_options(**options).guard("t")(numbers)


def test_a_tool_does_not_fall_back_on_itself_by_default():
    gear = Switchgear.local(
        defaults=GuardOptions(fallback="local"), local_policies=BreakerPolicy(consecutive_failures=1)
    )
    search = gear.guard("search")(lambda: "search")
    local = gear.guard("local")(lambda: "local")
    gear.try_acquire("search").failure(ConnectionError())
    assert (search(), local()) == ("local", "local")
    gear.try_acquire("local").failure(ConnectionError())
    with pytest.raises(CircuitOpenError):
        local()
