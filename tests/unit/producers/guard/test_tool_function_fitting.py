"""misfit agrees with Python about which arguments fit a function."""

from __future__ import annotations

import functools
import itertools

from switchgear import Switchgear
from switchgear.guard.tool_function import misfit
from tests.support.table import table


class Client:
    def get(self, city, days=1):
        """A method."""

    def __call__(self, city):
        """An object that can be called."""

    @classmethod
    def made(cls, city):
        """A class method."""


def by_position(a, b=1, /):
    """No names."""


def mixed(a, /, b, c=2, *, d, e=4):
    """Of all kinds."""


def any_names(a, /, **others):
    """Also a second a."""


def any_number(a, *rest, d=1):
    """As many as there are."""


async def coroutine(city):
    """Entered when it is awaited."""


def passes_on(*args, **kwargs):
    """Whatever comes."""


FUNCTIONS = [
    Client().get,
    Client.get,
    Client(),
    Client.made,
    by_position,
    mixed,
    any_names,
    any_number,
    passes_on,
    lambda: None,
    functools.partial(mixed, 1, d=2),
    functools.partial(Client().get, days=None),
    functools.partial(any_names, None),
]
POSITIONAL = [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]
NAMED = [{}, *({name: 0} for name in ("a", "b", "d", "city", "x")), {"b": 0, "d": 0}, {"city": 0, "days": 0}]


@table("function", FUNCTIONS)
def test_misfit_agrees_with_a_real_call(function):
    for args, kwargs in itertools.product(POSITIONAL, NAMED):
        try:
            function(*args, **kwargs)
            fits = True
        except TypeError:
            fits = False
        assert (misfit(function, args, kwargs) is None) is fits, (args, kwargs)


def test_misfit_names_the_argument_that_does_not_fit():
    assert misfit(mixed, (1, 2, 3, 4), {}) == "too many positional arguments"
    assert misfit(mixed, (1, 2), {"b": 3}) == "multiple values for argument 'b'"
    assert misfit(mixed, (1, 2), {"d": 3, "city": 3}) == "got an unexpected keyword argument 'city'"
    assert misfit(mixed, (1,), {"d": 3}) == "missing a required argument: 'b'"
    assert misfit(mixed, (1, 2), {}) == "missing a required argument: 'd'"


def test_a_guarded_function_takes_what_the_tool_takes():
    guarded = Switchgear.local().guard("t")(coroutine)
    assert misfit(guarded, (), {"city": "Oslo"}) is None
    assert misfit(guarded, (), {"town": "Oslo"}) == "missing a required argument: 'city'"


def test_misfit_ignores_a_wrong_signature_attribute():
    def takes_none():
        """In spite of its signature."""

    takes_none.__signature__ = "(city)"
    assert misfit(takes_none, (), {}) is None


def test_misfit_accepts_all_arguments_of_c_functions_whose_parameters_are_unknown():
    assert misfit(max, (), {}) is None
