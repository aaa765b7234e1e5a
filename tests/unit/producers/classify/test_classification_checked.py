"""What a user's classifier gives is checked: nonsense is logged once, and the call goes on as if it had said nothing."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Classification, Switchgear, SwitchgearError
from switchgear.classify.classification import WORDS, checked


async def later():
    return "server"


def answers_later(*_args):
    return later()


def short(found):
    return f"{found!r:.60}"


NONSENSE = [
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


@pytest.mark.parametrize("found", NONSENSE, ids=short)
def test_nonsense_is_told_by_what_it_is(found):
    with pytest.raises(SwitchgearError, match=r"A classification is|no error class|retry_after_s"):
        checked(found)


def test_a_word_stands_for_itself_and_none_for_nothing():
    assert checked(None) is None
    assert {checked(word).error_class for word in WORDS} == WORDS
    assert checked(Classification("server", 3)) == Classification("server", 3)


@pytest.fixture
def once():
    return {"local_policies": BreakerPolicy(consecutive_failures=1)}


def broken():
    raise ConnectionError("down")


@pytest.mark.parametrize("of", ["guard", "client"])
@pytest.mark.parametrize("found", NONSENSE, ids=short)
def test_the_tools_own_exception_goes_through_and_the_default_decides(once, of, found, caplog):
    rule = {"classify": lambda _error: found}
    gear = Switchgear.local(**once, **(rule if of == "client" else {}))
    guarded = gear.guard("t", **(rule if of == "guard" else {}))(broken)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            guarded()
        assert gear.is_open("t"), "the default says transport"
        gear._gate.local.get("t").breaker.command("reset", 0.0, actor="test")
    assert caplog.text.count(" failed") == 1, "once a minute"


@pytest.mark.filterwarnings("error")
def test_a_rule_that_gives_a_coroutine_is_told(once, caplog):
    gear = Switchgear.local(**once)
    guarded = gear.guard("t", classify=answers_later, classify_result=answers_later)(broken)
    with pytest.raises(ConnectionError):
        guarded()
    assert "classify of t failed: SwitchgearError: A classification is" in caplog.text


@pytest.mark.parametrize("found", NONSENSE, ids=short)
def test_a_good_result_stays_one(once, found, caplog):
    gear = Switchgear.local(**once)
    guarded = gear.guard("t", classify_result=lambda _result: found)(lambda: "fine")
    assert [guarded(), guarded()] == ["fine", "fine"]
    assert not gear.is_open("t")
    assert caplog.text.count("classify_result of t failed") == 1
