"""A user's rule, ``Switchgear(redact=…)``, applies to every error message."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.redaction import MARK

ONE = BreakerPolicy(consecutive_failures=1)


def refusal(gear, message="no such user ana@example.org, token=abcdefgh1234"):
    gear.try_acquire("users").failure(ConnectionError(message))
    return gear.try_acquire("users")


def test_users_rule_applies_to_the_last_error():
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text.replace("ana@example.org", "(someone)"))
    rejection = refusal(gear)
    assert rejection.last_error == f"ConnectionError: no such user (someone), token={MARK}"
    assert "ana" not in rejection.text


def test_users_rule_applies_to_circuits_of_a_session():
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text.replace("ana@example.org", "(someone)"))
    with gear.session("s-1"):
        assert "(someone)" in refusal(gear).last_error


def test_failing_rule_withholds_the_message_but_not_the_call(caplog):
    gear = Switchgear.local(local_policies=ONE, redact=lambda text: text[10**9])

    @gear.guard("users")
    def users():
        raise ConnectionError("ana@example.org")

    with pytest.raises(ConnectionError, match=r"ana@example\.org"):
        users()
    assert gear.try_acquire("users").last_error == f"ConnectionError: {MARK}"
    assert "withheld" in caplog.text
