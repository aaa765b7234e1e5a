"""Error messages: how much of them is kept and sent."""

from __future__ import annotations

from switchgear import BreakerPolicy, Rejection, Switchgear
from switchgear.emitter.event import Event
from switchgear.redaction import MAX_MESSAGE_CHARACTERS, redact
from switchgear.testing import InMemoryFleet
from tests.support.table import table

ONE = BreakerPolicy(consecutive_failures=1)
LONG = 1_000_000


def test_error_messages_are_cut_before_they_are_kept_and_buffered() -> None:
    gear = Switchgear("127.0.0.1:1", local_policies=ONE)
    gear._runtime.started = True
    assert gear._emitter is not None
    gear._emitter.wake = lambda urgent: None  # type: ignore[method-assign]
    for tool, error in (("a", "x" * LONG), ("b", ConnectionError("x" * LONG))):
        gear.try_acquire(tool).failure(error)  # type: ignore[union-attr]
        ((event, _),) = gear._emitter.buffer.take(10)
        assert isinstance(event, Event)
        assert event.error_message is not None
        assert len(event.error_message) < 3 * MAX_MESSAGE_CHARACTERS
    kept = gear._decision.local.circuits["b"].last_error
    assert kept is not None
    assert len(kept) < 3 * MAX_MESSAGE_CHARACTERS


@table(
    "message",
    [
        "x" * 3_999,
        "x" * 4_000,
        "x" * 4_001,
        "x" * LONG,
        "two words " * 1_000,
        "token='" + "a" * 3_900 + "' " + "two words " * 1_000,
        "token='" + "a" * LONG + "' is wrong",
        "-----BEGIN PRIVATE KEY-----" + "A" * LONG,
    ],
)
def test_a_cut_error_message_is_redacted_like_the_whole_one(message: str) -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(local_policies=ONE)
    gear.try_acquire("t").failure(ConnectionError(message))  # type: ignore[union-attr]
    assert fleet.events("t")[0]["error_message"] == redact(message)
    refusal = gear.try_acquire("t")
    assert isinstance(refusal, Rejection)
    assert refusal.last_error == redact(f"ConnectionError: {message}")


def test_a_users_redact_rule_runs_after_the_built_in_one() -> None:
    seen: list[str] = []
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: seen.append(text) or text)  # type: ignore[func-returns-value]
    gear.try_acquire("t").failure("two words " * 1_000)  # type: ignore[union-attr]
    assert seen == [redact("two words " * 1_000)]
