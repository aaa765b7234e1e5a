"""The table of rejected credentials, without a client."""

from __future__ import annotations

import itertools

import pytest

from switchgear.breaker import ResultKind
from switchgear.guard import credentials as module
from switchgear.guard.credentials import FORGET_S, MOST_RUNS, Credentials, Held, credential_kind, rules
from switchgear.guard.rejections import Caller, Rejection
from tests.support.table import table

ANA, BEN = Caller(credential="ana"), Caller(credential="ben")
FAILURE, SUCCESS, IGNORED = ResultKind.FAILURE, ResultKind.SUCCESS, ResultKind.IGNORED


class Table(Credentials):
    """Calls a tool as a guard does."""

    def __init__(self, **options):
        super().__init__(**options)
        self.now = 0.0

    def call(self, kind=FAILURE, *, caller=ANA, tool="t", family=None, limit=3):
        """Return whether the call was made."""
        held = self.admit(tool, family, caller, self.now)
        if isinstance(held, Rejection):
            return False
        self.ended(tool, family, caller, held, limit, self.now, kind)
        return True

    def calls(self, count, kind=FAILURE, **options):
        return [self.call(kind, **options) for _ in range(count)]


@pytest.fixture
def found():
    return Table()


def test_of_two_hundred_calls_with_an_expired_token_three_are_made(found):
    assert found.calls(200).count(True) == 3


def test_another_credential_and_another_tool_go_on(found):
    found.calls(5)
    assert found.calls(3, SUCCESS, caller=BEN) == [True] * 3
    assert found.calls(3, SUCCESS, tool="other") == [True] * 3
    assert not found.call()


def test_a_new_token_is_tried_at_once(found):
    found.calls(5)
    assert found.call(SUCCESS, caller=Caller(session_id="s", user_id="u", credential="new"))


def test_a_success_between_them_starts_the_run_afresh(found):
    for _ in range(10):
        assert found.calls(2) == [True] * 2
        assert found.call(SUCCESS)
    assert not found.runs


def test_calls_that_say_nothing_change_nothing(found):
    found.calls(2)
    assert found.calls(20, IGNORED) == [True] * 20
    assert found.calls(2) == [True, False]


def test_a_probe_that_works_gives_the_tool_back(found):
    found.calls(5)
    found.now = 59.9
    assert not found.call()
    found.now = 60.0
    assert found.call(SUCCESS)
    assert not found.runs
    assert found.calls(4) == [True] * 3 + [False]


def test_probes_that_fail_double_the_wait_up_to_ten_minutes(found):
    found.calls(5)
    made = []
    for _ in range(3_600):
        found.now += 1
        if found.call():
            made.append(found.now)
    waits = [later - earlier for earlier, later in itertools.pairwise(made)]
    assert made[0] == 60
    assert waits[:5] == [120, 240, 480, 600, 600]


def test_one_probe_goes_at_a_time_and_one_that_is_given_back_is_free(found):
    found.calls(5)
    found.now = 60.0
    held = found.admit("t", None, ANA, found.now)
    assert isinstance(held, Held)
    assert isinstance(found.admit("t", None, ANA, found.now), Rejection)
    found.give_back(held, found.now)
    assert found.call(SUCCESS)


def test_a_probe_that_says_nothing_leaves_the_place_to_the_next(found):
    found.calls(5)
    found.now = 60.0
    assert found.call(IGNORED)
    assert found.call(SUCCESS)
    assert not found.runs


def test_calls_that_were_under_way_when_the_run_opened_count_once(found):
    held = [found.admit("t", None, ANA, 0.0) for _ in range(10)]
    assert held == [None] * 10
    for each in held:
        found.ended("t", None, ANA, each, 3, 0.0, FAILURE)
    refusal = found.admit("t", None, ANA, 0.0)
    assert isinstance(refusal, Rejection)
    assert refusal.failures == 10


def test_a_success_of_a_call_from_before_does_not_end_the_refusal(found):
    held = found.admit("t", None, ANA, 0.0)
    found.calls(3)
    found.ended("t", None, ANA, held, 3, 0.0, SUCCESS)
    assert not found.call()


# -- servers --------------------------------------------------------------------------------------------------------------


def test_rejections_of_two_tools_refuse_the_server_and_of_one_tool_only_the_tool(found):
    assert found.calls(5, tool="mcp:s:a", family="mcp:s") == [True] * 3 + [False] * 2
    assert found.call(SUCCESS, tool="mcp:s:b", family="mcp:s")
    assert not found.call(tool="mcp:s:a", family="mcp:s")
    other = Table()
    assert [other.call(tool=f"mcp:s:{each}", family="mcp:s") for each in "abab"] == [True] * 3 + [False]
    refusal = other.admit("mcp:s:c", "mcp:s", ANA, 0.0)
    assert isinstance(refusal, Rejection)
    assert (refusal.family, refusal.scope, refusal.failures) == ("mcp:s", "family", 3)
    assert other.call(SUCCESS, tool="mcp:other:c", family="mcp:other")
    assert other.call(SUCCESS, tool="mcp:s:a", family="mcp:s", caller=BEN)


def test_the_probe_of_a_server_goes_to_any_tool_and_frees_all_of_them(found):
    for each in "aaabbbccc":
        found.call(tool=f"mcp:s:{each}", family="mcp:s")
    assert not found.call(tool="mcp:s:d", family="mcp:s")
    found.now = 60.0
    assert found.call(SUCCESS, tool="mcp:s:a", family="mcp:s")
    assert not found.runs
    assert [found.call(SUCCESS, tool=f"mcp:s:{each}", family="mcp:s") for each in "abcd"] == [True] * 4


def test_a_server_that_rejects_its_probe_refuses_all_tools_again(found):
    for each in "abab":
        found.call(tool=f"mcp:s:{each}", family="mcp:s")
    found.now = 60.0
    assert [found.call(tool=f"mcp:s:{each}", family="mcp:s") for each in "abc"] == [True, False, False]
    found.now = 60.0 + 119.9
    assert not found.call(tool="mcp:s:a", family="mcp:s")
    found.now += 0.2
    assert found.call(tool="mcp:s:a", family="mcp:s")


def test_a_tool_that_a_person_may_not_use_stays_refused_while_the_others_of_its_server_work(found):
    found.calls(3, tool="mcp:s:admin", family="mcp:s")
    for _ in range(20):
        assert found.call(SUCCESS, tool="mcp:s:read", family="mcp:s")
        assert not found.call(tool="mcp:s:admin", family="mcp:s")


def test_a_tool_with_the_name_of_a_family_is_another_one(found):
    for each in "abab":
        found.call(tool=f"mcp:s:{each}", family="mcp:s")
    assert found.call(tool="mcp:s")
    assert not found.call(tool="mcp:s:a", family="mcp:s")


# -- who ------------------------------------------------------------------------------------------------------------------


@table(
    "caller, other, same",
    [
        (Caller(credential="x"), Caller("u", "s", credential="x"), True),
        (Caller(credential="x"), Caller(credential="y"), False),
        (Caller("ana", "s"), Caller("ben", "s"), True),
        (Caller("ana", "s"), Caller("ana", "s2"), False),
        (Caller("ana"), Caller("ana", ""), True),
        (Caller("ana"), Caller("ben"), False),
        (Caller("x"), Caller(session_id="x"), False),
        (Caller(), Caller(request_id="r"), True),
        (Caller(), Caller("u"), False),
        (Caller(session_id="\ud800"), Caller(session_id="\ud801"), False),
    ],
)
def test_what_stands_for_a_credential(found, caller, other, same):
    assert (found.holder_of(caller) == found.holder_of(other)) is same


def test_names_are_salted_hashes():
    one, other = Credentials(), Credentials()
    assert one.salted("Bearer t") != other.salted("Bearer t")
    assert Credentials(b"k").salted("Bearer t") == Credentials(b"k").salted("Bearer t")
    assert Credentials(b"k").salted("Bearer t") != Credentials(b"l").salted("Bearer t")
    assert (Credentials(b"k").shared, one.shared) == (True, False)
    assert one.holder_of(Caller(session_id="s")) not in {one.salted("s"), one.salted("session s")}
    for text in ("", "\ud800", "x" * 10_000_000):
        assert len(one.salted(text)) == 24


@table(
    "status, error_class, kind",
    [
        ("success", None, SUCCESS),
        ("success", "policy", IGNORED),
        ("error", "auth", FAILURE),
        ("error", "tool", SUCCESS),
        ("error", "invalid_input", SUCCESS),
        ("error", "server", IGNORED),
        ("error", "rate_limited", IGNORED),
        ("error", "transport", IGNORED),
        ("error", "policy", IGNORED),
        ("timeout", "timeout", IGNORED),
        ("timeout", None, IGNORED),
        ("cancelled", "cancelled", IGNORED),
        ("error", None, IGNORED),
    ],
)
def test_what_the_end_of_a_call_says_about_its_credential(status, error_class, kind):
    assert credential_kind(status, error_class) is kind


# -- bounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_invented_credentials_are_bounded_and_the_one_used_last_is_remembered(found):
    for number in range(MOST_RUNS * 2):
        found.call(caller=Caller(credential=str(number)))
        if number % 100 == 0:
            found.call()
    assert len(found.runs) == MOST_RUNS
    assert not found.call()


def test_runs_that_nobody_asks_about_are_forgotten_after_an_hour(found):
    found.calls(5)
    found.call(caller=BEN)
    found.now = FORGET_S
    found.call(tool="other")
    assert len(found.runs) == 3
    found.now += 0.1
    found.call(tool="other")
    assert len(found.runs) == 1


def test_in_the_child_of_a_fork_the_probes_of_the_parent_are_free(found):
    found.calls(5)
    found.now = 60.0
    assert isinstance(found.admit("t", None, ANA, found.now), Held)
    found._forked()
    assert found.call(SUCCESS)


def test_the_rules_are_those_of_an_ordinary_circuit():
    assert rules(3, of_server=True) is rules(3, of_server=True)
    assert (rules(2, of_server=False).consecutive_failures, rules(2, of_server=False).minimum_tools) == (2, 1)
    assert rules(2, of_server=True).minimum_tools == 2
    assert module.MOST_RUNS == 4_096
