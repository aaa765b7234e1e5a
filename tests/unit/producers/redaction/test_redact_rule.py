"""``Switchgear(redact=…)``: a user's own rule for error messages, wherever they are shown."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.redaction.redact import MARK

ONE = BreakerPolicy(consecutive_failures=1)


def refusal(gear, message="no such user ana@example.org, token=abcdefgh1234"):
    gear.try_acquire("users").failure(ConnectionError(message))
    return gear.try_acquire("users")


def test_the_last_error_is_without_what_the_rule_takes_out():
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text.replace("ana@example.org", "(someone)"))
    rejection = refusal(gear)
    assert rejection.last_error == f"ConnectionError: no such user (someone), token={MARK}"
    assert "ana" not in rejection.text


def test_a_sessions_own_circuits_heed_it_too():
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text.replace("ana@example.org", "(someone)"))
    with gear.session("s-1"):
        assert "(someone)" in refusal(gear).last_error


def test_a_rule_that_fails_withholds_the_message_and_not_the_call(caplog):
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text[10**9])

    @gear.guard("users")
    def users():
        raise ConnectionError("ana@example.org")

    with pytest.raises(ConnectionError, match=r"ana@example\.org"):
        users()
    assert gear.try_acquire("users").last_error == f"ConnectionError: {MARK}"
    assert "withheld" in caplog.text
