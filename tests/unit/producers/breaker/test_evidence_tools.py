"""A family's circuit opens only if calls of several of its tools fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind, family_result_kind
from switchgear.breaker.snapshot import SnapshotError, decode, encode
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT, LOCAL_FAMILY_DEFAULT, BreakerPolicy
from tests.support.table import table


def bad(tool):
    return Result(ResultKind.FAILURE, reporter="a", tool=tool)


def good(tool):
    return Result(reporter="a", tool=tool)


def breaker_of(**rules) -> Breaker:
    return Breaker("mcp:s|family", BreakerPolicy(failure_count=3, sliding_window_size=10, **rules), 0.0)


@pytest.mark.slow
def test_one_broken_tool_does_not_open_the_circuit_of_a_family_whose_other_tools_are_idle():
    breaker = breaker_of(minimum_tools=2)
    breaker.record(0.0, good("healthy"))
    for second in range(10_000):
        assert breaker.record(float(second), bad("broken")) is None


def test_the_failure_of_a_second_tool_opens_the_circuit_and_the_cause_counts_the_tools():
    breaker = breaker_of(minimum_tools=2)
    for _ in range(3):
        breaker.record(0.0, bad("one"))
    breaker = breaker_of(minimum_tools=2)
    results = [good("two"), bad("one"), bad("one"), bad("one"), bad("two")]
    moved = [breaker.record(0.0, result) for result in results]
    assert moved[:4] == [None] * 4
    assert moved[4].cause.tools == 2


def test_the_only_tool_that_was_called_never_opens_the_circuit_of_its_family():
    breaker = breaker_of(minimum_tools=2)
    assert [breaker.record(0.0, bad("only")) for _ in range(10)] == [None] * 10


def test_two_tools_are_enough_where_no_other_was_called():
    breaker = breaker_of(minimum_tools=5)
    assert [breaker.record(0.0, bad(tool)) is None for tool in ("one", "two", "one")] == [True, True, False]


def test_a_failure_that_left_the_window_does_not_count_for_tools():
    breaker = breaker_of(minimum_tools=2)
    breaker.record(0.0, bad("one"))
    for _ in range(5):
        assert breaker.record(10.5, bad("two")) is None


def test_a_close_forgets_which_tools_were_called():
    breaker = breaker_of(minimum_tools=3)
    breaker.record(0.0, good("idle"))
    breaker.command("reset", 1.0, actor="me")
    assert [breaker.record(2.0, bad(tool)) is None for tool in ("one", "two", "one")] == [True, True, False]


def test_a_slow_call_counts_for_its_tool():
    rules = {"slow_call_duration_threshold_ms": 1, "slow_call_rate_threshold": 0.5, "minimum_number_of_calls": 4}
    breaker = Breaker("c", BreakerPolicy(minimum_tools=2, **rules), 0.0)
    slow = [Result(duration_ms=9, tool="one")] * 5
    assert [breaker.record(0.0, result) for result in (good("two"), *slow)] == [None] * 6
    assert breaker.record(0.0, Result(duration_ms=9, tool="two")) is not None


def test_a_restored_circuit_still_knows_its_tools():
    breaker = breaker_of(minimum_tools=2)
    for result in (good("two"), bad("one"), bad("one"), bad("one")):
        breaker.record(0.0, result)
    saved = breaker.snapshot()
    restored = Breaker.restore(saved, breaker.policy)
    assert restored.snapshot() == saved
    assert restored.record(0.0, bad("one")) is None
    opened = restored.record(0.0, bad("two"))
    assert opened.cause.tools == 2
    assert Breaker.restore(restored.snapshot(), breaker.policy).cause == opened.cause


def test_refuses_a_snapshot_with_more_tools_than_it_counts():
    saved = decode(breaker_of(minimum_tools=2).snapshot())
    saved.evidence.called = ["a", "b", "c"]
    with pytest.raises(SnapshotError, match="more tools than 2"):
        decode(encode(saved))


def test_a_policy_of_a_family_that_compares_rates_is_never_quiet():
    assert breaker_of(minimum_tools=2, failure_rate_threshold=0.5).quiet is None
    assert breaker_of(minimum_tools=2).quiet is not None


def test_a_tool_that_was_noted_and_has_no_result_holds_the_failures_of_another_one_back():
    breaker = breaker_of(minimum_tools=2)
    breaker.note_tools(["idle"])
    for now in range(9):
        assert breaker.record(float(now), bad("broken")) is None
    assert breaker.record(9.0, bad("idle")).cause.tools == 2


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 40)), max_size=60))
def test_successes_of_noted_tools_that_a_quiet_circuit_leaves_out_change_no_decision(calls):
    """As the guard does it: it notes every tool at first, and again whenever the circuit forgets its evidence."""
    whole, quick = (Breaker("mcp:s|family", LOCAL_FAMILY_DEFAULT, 0.0) for _ in range(2))
    now = 0.0
    for breaker in (whole, quick):
        breaker.on_move = lambda _moved, breaker=breaker: breaker.note_tools("abc")
        breaker.note_tools("abc")
    for tool, fails, pause in calls:
        now += pause
        permits = [breaker.try_acquire(now) for breaker in (whole, quick)]
        assert isinstance(permits[0], BreakerPermit) == isinstance(permits[1], BreakerPermit)
        for breaker, permit in zip((whole, quick), permits, strict=True):
            left_out = breaker is quick and breaker.quiet is not None and not fails
            if isinstance(permit, BreakerPermit) and not left_out:
                breaker.record(now, bad(tool) if fails else good(tool), permit)
        assert (whole.state, whole.generation, whole.open_until) == (quick.state, quick.generation, quick.open_until)


def test_notes_no_more_tools_than_the_policy_asks_for():
    breaker = breaker_of(minimum_tools=2)
    breaker.note_tools(["a", "b", "c"])
    assert list(decode(breaker.snapshot()).evidence.called) == ["a", "b"]


@table(
    ("status", "error_class", "kind"),
    [
        ("success", None, ResultKind.SUCCESS),
        ("success", "policy", ResultKind.IGNORED),
        ("error", "transport", ResultKind.FAILURE),
        ("timeout", None, ResultKind.FAILURE),
        ("timeout", "timeout", ResultKind.FAILURE),
        *(("error", each, ResultKind.SUCCESS) for each in ("tool", "invalid_input", "server", "rate_limited", "auth")),
        *(("error", each, ResultKind.IGNORED) for each in (None, "unknown", "policy")),
        ("cancelled", None, ResultKind.IGNORED),
        ("rejected", "transport", ResultKind.IGNORED),
        ("overdue", "timeout", ResultKind.OVERDUE),
    ],
)
def test_any_answer_of_the_server_is_a_success_for_the_family(status, error_class, kind):
    assert family_result_kind(status, error_class, FAMILY_DEFAULT) is kind


def test_a_failure_to_connect_that_the_policy_does_not_count_says_nothing_about_the_family():
    policy = FAMILY_DEFAULT.model_copy(update={"counted_error_classes": frozenset({"timeout"})})
    assert family_result_kind("error", "transport", policy) is ResultKind.IGNORED


def test_the_default_policies_ask_families_for_two_tools_and_tools_for_one():
    assert (FAMILY_DEFAULT.minimum_tools, FLEET_DEFAULT.minimum_tools) == (2, 1)
