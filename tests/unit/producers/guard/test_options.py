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
        ("timeout", 0, "The option timeout must be a number of seconds above 0, not 0"),
        ("timeout", float("inf"), "The option timeout"),
        ("timeout", "5", "The option timeout"),
        ("timeout", True, "The option timeout"),
        ("cache", 60, "The option cache must be a CachePolicy, not 60. CachePolicy(ttl_s=60)"),
        ("on_duplicate", "ignore", 'The option on_duplicate must be "refuse" or a function'),
        ("duplicate_after", 1, "The option duplicate_after"),
        ("usage", 3, "The option usage must be a function"),
        ("classify", "tool", "The option classify must be a function"),
        ("classify_result", True, "The option classify_result must be a function"),
        ("parameters", ["city"], "The option parameters must be a function"),
    ],
)
def test_a_value_out_of_range_is_told_by_the_options_name(gear, option, value, said):
    for give in (lambda: GuardOptions(**{option: value}), lambda: gear.guard("t", **{option: value})):
        with pytest.raises(OptionError) as caught:
            give()
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"), [("tiemout", "Did you mean timeout?"), ("xyzzy", "The options are fallback, adapt, timeout")]
)
def test_an_unknown_option_is_told_with_the_nearest_known_one(gear, name, hint):
    with pytest.raises(OptionError, match=f"A guard has no option {name}. {hint[:12]}") as caught:
        gear.with_options(**{name: 5})
    assert hint in str(caught.value)


def test_an_option_error_is_ours_and_a_value_error():
    assert issubclass(OptionError, SwitchgearError)
    assert issubclass(OptionError, ValueError)


def test_the_keywords_of_guard_are_the_fields_of_the_options():
    assert list(Overrides.__annotations__) == [field.name for field in dataclasses.fields(GuardOptions)]


def test_what_is_not_given_has_the_clients_default_and_what_is_given_replaces_it():
    gear = Switchgear.local(defaults=GuardOptions(timeout=5, duplicate_after=4))
    assert gear.options.timeout == 5
    assert gear.with_options(timeout=None).options == GuardOptions(duplicate_after=4)
    assert gear.with_options(duplicate_after=9).with_options(timeout=1).options == GuardOptions(
        timeout=1, duplicate_after=9
    )


def test_a_generator_can_keep_no_result(gear):
    def numbers():
        yield 1

    for options in ({"cache": CachePolicy()}, {"single_flight": True}):
        with pytest.raises(OptionError, match=f"The option {next(iter(options))} can't be used"):
            gear.guard("t", **options)(numbers)


def test_a_generator_that_hangs_can_not_be_left_so_it_has_no_time_limit(gear):
    def numbers():
        yield 1

    with pytest.raises(OptionError, match="Make it an async generator"):
        gear.guard("t", timeout=1)(numbers)


def test_only_what_can_be_called_is_guarded(gear):
    with pytest.raises(OptionError, match="must be a function, not 3"):
        gear.guard("t")(3)


def test_a_default_that_a_function_can_not_have_is_left_out_but_not_one_that_was_asked_for():
    gear = Switchgear.local(defaults=GuardOptions(timeout=5, cache=CachePolicy(), single_flight=True))

    def numbers():
        yield 1

    assert list(gear.guard("t")(numbers)()) == [1]
    for options in ({"timeout": 5}, {"cache": CachePolicy()}, {"single_flight": True}):
        with pytest.raises(OptionError):
            gear.with_options(**options).guard("t")(numbers)


def test_a_default_fallback_is_none_for_that_tool_itself():
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
