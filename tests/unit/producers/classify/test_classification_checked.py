"""What a user's classifier returns is checked: an impossible value is logged once, and the default decides."""

from __future__ import annotations

from typing import get_args

import pytest

from switchgear import BreakerPolicy, Classification, Switchgear, SwitchgearError
from switchgear.classify.classification import checked
from switchgear_schemas.enums import ErrorClass
from tests.support.table import table


def short(found):
    return f"{found!r:.60}"


IMPOSSIBLE = [
    True,
    False,
    5,
    "bogus",
    ("server", 30),
    Classification("bogus"),
    Classification(None),
    Classification("rate_limited", "30"),
    Classification("rate_limited", -1),
    Classification("rate_limited", float("nan")),
    Classification("rate_limited", 10**400),
    Classification("rate_limited", True),
]


@table("found", IMPOSSIBLE, ids=short)
def test_rejects_an_impossible_classification(found):
    with pytest.raises(SwitchgearError, match=r"error class .* is unknown|retry_after_s is"):
        checked(found)


def test_accepts_none_an_error_class_and_a_classification():
    assert checked(None) is None
    classes = set(get_args(ErrorClass))
    assert {checked(each).error_class for each in classes} == classes
    assert checked(Classification("server", 3)) == Classification("server", 3)


@pytest.fixture
def once():
    return {"local_policies": BreakerPolicy(consecutive_failures=1)}


def broken():
    raise ConnectionError("down")


@pytest.mark.parametrize("of", ["guard", "client"])
@pytest.mark.parametrize("found", IMPOSSIBLE, ids=short)
def test_impossible_classification_of_an_exception_leaves_it_to_the_default(once, of, found, caplog):
    rule = {"classify": lambda _error: found}
    gear = Switchgear.local(**once, **(rule if of == "client" else {}))
    guarded = gear.guard("t", **(rule if of == "guard" else {}))(broken)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            guarded()
        assert gear.is_open("t"), "the default says transport"
        gear._decision.local.get("t").breaker.command("reset", 0.0, actor="test")
    assert caplog.text.count(" failed") == 1, "once a minute"


@pytest.mark.parametrize("found", IMPOSSIBLE, ids=short)
def test_impossible_classification_of_a_result_leaves_it_a_success(once, found, caplog):
    gear = Switchgear.local(**once)
    guarded = gear.guard("t", classify_result=lambda _result: found)(lambda: "fine")
    assert [guarded(), guarded()] == ["fine", "fine"]
    assert not gear.is_open("t")
    assert caplog.text.count("classify_result of t failed") == 1
