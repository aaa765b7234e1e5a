"""Tokens of permits."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as some

from switchgear_gateway.permit_tokens import MAX_LENGTH, PREFIX, GivenPermit, PermitTokens

pytestmark = pytest.mark.slow

names = some.text(max_size=256)
permits = some.builds(
    GivenPermit,
    metric_id=some.binary(min_size=16, max_size=16),
    issued_at=some.floats(0, 1e10),
    expires_at=some.floats(0, 1e10),
    tool=names,
    generation=some.none() | some.integers(0, 2**62),
    lease_id=some.none() | names,
    user_id=names,
    session_id=some.none() | names,
)
TOKENS = PermitTokens(b"0123456789abcdef")
PERMIT = GivenPermit(bytes(16), 1.0, 2.0, "t")


@given(permits)
def test_a_token_holds_its_permit(permit):
    assert TOKENS.permit(TOKENS.token(permit)) == permit


@given(
    some.text()
    | some.text().map(PREFIX.__add__)
    | some.binary(max_size=99).map(lambda it: PREFIX + base64.urlsafe_b64encode(it).decode())
)
def test_anything_else_is_no_permit(text):
    assert TOKENS.permit(text) is None


@given(some.integers(0, 10_000), some.integers(1, 255))
def test_a_token_with_one_changed_byte_is_no_permit(place, change):
    token = TOKENS.token(PERMIT).removeprefix(PREFIX)
    data = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    data[place % len(data)] ^= change
    assert TOKENS.permit(PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()) is None


def test_a_token_of_another_key_is_no_permit():
    assert PermitTokens(b"fedcba9876543210").permit(TOKENS.token(PERMIT)) is None
    assert PermitTokens().permit(TOKENS.token(PERMIT)) is None


def test_the_longest_permit_has_a_token_that_can_be_read():
    long = "\U0001f980" * 256
    permit = GivenPermit(bytes(16), 1e9, 1e9, long, 2**62, "x" * 40, 2**62, "x" * 40, *[long] * 7)
    token = TOKENS.token(permit)
    assert len(token) <= MAX_LENGTH
    assert TOKENS.permit(token) == permit
