"""Outcomes: what their events say, and that each counts once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from switchgear_gateway import outcomes
from switchgear_gateway.otlp.submission import SubmitResult
from switchgear_gateway.outcomes import Outcome, Outcomes, execution_of
from switchgear_gateway.permit_tokens import GivenPermit
from tests.support.table import table

TOOL = "t"
NOW = 1_800_000_000.0


def permit(**fields):
    return GivenPermit(bytes(16), NOW, NOW + 60, TOOL, **fields)


@table(
    ("outcome", "status", "error_class"),
    [
        ({"status": "success"}, "success", None),
        ({"status": "error"}, "error", None),
        ({"status": "error", "error_class": "rate_limited"}, "error", "rate_limited"),
        ({"status": "error", "error_class": "timeout"}, "timeout", "timeout"),
        ({"status": "error", "error_class": "cancelled"}, "cancelled", "cancelled"),
        ({"status": "timeout"}, "timeout", "timeout"),
        ({"status": "ignored"}, "success", "policy"),
        ({"status": "ignored", "error_message": "denied"}, "error", "policy"),
    ],
)
def test_the_status_and_the_class_of_an_outcome_are_those_of_its_event(outcome, status, error_class):
    found = execution_of(permit(), Outcome(**outcome), NOW)
    assert (found.status, found.error_class) == (status, error_class)


def test_an_event_has_what_its_permit_had():
    given = permit(
        generation=4, lease_id="4.1", family_generation=2, family_lease_id="2.1", emitter_id="e", service="s",
        tenant="acme", user_id="u", session_id="i", request_id="r", parameters_hash="h", served_by="fallback",
    )  # fmt: skip
    found = execution_of(given, Outcome(status="success"), NOW + 1)
    for field in GivenPermit.__struct_fields__[4:]:
        assert getattr(found, field) == getattr(given, field), field
    assert found.metric_id.bytes == given.metric_id


def test_an_event_says_when_the_call_ended_and_not_when_its_outcome_came():
    late = execution_of(permit(), Outcome(status="success", duration_ms=2_500), NOW + 500)
    assert late.recorded_at.timestamp() == NOW + 2.5
    assert late.execution_time_ms == 2_500
    unknown = execution_of(permit(), Outcome(status="success"), NOW + 500)
    assert unknown.recorded_at.timestamp() == NOW + 500
    assert unknown.execution_time_ms == 500_000


@table(
    ("field", "most"),
    [("duration_ms", 31_536_000_000), ("input_tokens", 10**9), ("output_tokens", 10**9), ("cost_usd", 10**6)],
)
def test_the_numbers_of_an_outcome_fit_its_event(field, most):
    given = msgspec.convert({"status": "success", field: most}, Outcome)
    execution_of(permit(), given, NOW)
    with pytest.raises(msgspec.ValidationError, match=f"<= {most}"):
        msgspec.convert({"status": "success", field: most * 2}, Outcome)


def test_an_event_is_never_recorded_in_the_future():
    found = execution_of(permit(), Outcome(status="success", duration_ms=1e9), NOW + 1)
    assert found.recorded_at.timestamp() == NOW + 1
    assert execution_of(permit(), Outcome(status="success"), NOW - 5).recorded_at.timestamp() == NOW


def test_secrets_are_removed_from_the_message():
    found = execution_of(permit(), Outcome(status="error", error_message="Authorization: Bearer abcdef123456789"), NOW)
    assert "abcdef123456789" not in found.error_message


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"status": "success", "error_class": "tool"}, "error_class: an outcome of status success has none."),
        ({"status": "ignored", "error_class": "tool"}, "error_class: an outcome of status ignored has none."),
        ({"status": "success", "error_message": "x"}, "error_type, error_message: a success has no error."),
        ({"status": "done"}, "status: invalid enum value 'done'."),
        ({"status": "success", "duration_ms": -1}, "duration_ms: expected `float` >= 0.0."),
        ({}, "status: this field is missing."),
    ],
)
async def test_a_wrong_field_of_an_outcome_is_named(client, fields, detail):
    given = (await client.decide(TOOL))["permit"]
    response = await client.post("/v1/outcome", permit=given, **fields)
    assert (response.status_code, response.json()["detail"]) == (422, detail)


async def test_an_unknown_a_forged_and_an_expired_permit_are_not_found(place, client):
    given = (await client.decide(TOOL))["permit"]
    changed = given[:-2] + ("AA" if given[-2:] != "AA" else "BB")
    for wrong in ("", "sgp1_", "sgp1_é", changed, given[:60], "x" * 16_000):
        assert await client.outcome(wrong) == 404
    place.fleet.advance(3600)
    response = await client.post("/v1/outcome", permit=given, status="success")
    assert (response.status_code, response.json()["detail"]) == (404, "permit: it has expired.")
    assert place.events(TOOL) == []


async def test_a_repeated_outcome_at_the_same_gateway_is_sent_once(place, client):
    given = (await client.decide(TOOL))["permit"]
    for _ in range(3):
        assert await client.outcome(given, "error") == 204
    assert len(place.events(TOOL)) == 1


async def test_an_outcome_that_another_gateway_may_have_sent_is_marked_when_its_client_says_so(place, client):
    given = (await client.decide(TOOL))["permit"]
    assert await client.outcome(given) == 204
    assert await place.client().outcome(given, resent=True) == 204
    assert place.submit.resent == [False, True]
    assert len({event["metric_id"] for event in place.events(TOOL)}) == 1


async def test_an_outcome_whose_acknowledgement_is_unknown_is_marked_when_it_comes_again(place, client):
    place.submit.results = [SubmitResult(unknown=[0])]
    given = (await client.decide(TOOL))["permit"]
    response = await client.post("/v1/outcome", permit=given, status="success")
    assert response.status_code == 503
    assert "Switchgear-Resent: true" in response.json()["hint"]
    assert await client.outcome(given) == 204
    assert await client.outcome(given) == 204
    assert place.submit.resent == [False, True]


async def test_an_outcome_that_was_not_taken_is_sent_unmarked_when_it_comes_again(place, client):
    place.submit.results = [SubmitResult(retry_after_s=2.5), SubmitResult(rejected=[(0, "too large")])]
    given = (await client.decide(TOOL))["permit"]
    busy = await client.post("/v1/outcome", permit=given, status="success")
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "3")
    refused = await client.post("/v1/outcome", permit=given, status="success")
    assert (refused.status_code, refused.json()["detail"]) == (422, "The event was not accepted: too large.")
    assert await client.outcome(given) == 204
    assert place.submit.resent == [False, False, False]


async def test_a_kafka_that_does_not_answer_is_awaited_for_a_limited_time():
    async def never(_executions, *, resent):
        await asyncio.sleep(60)

    sender = Outcomes(never, limit_s=0.01)
    with pytest.raises(outcomes.ProblemError, match=r"within 0\.01 s") as error:
        await sender.report(execution_of(permit(), Outcome(status="success"), NOW), resent=False)
    assert error.value.status == 503


async def test_the_outcomes_that_a_gateway_remembers_are_bounded(monkeypatch):
    async def taken(_executions, *, resent):
        return SubmitResult()

    monkeypatch.setattr(outcomes, "MOST_REMEMBERED", 3)
    sender = Outcomes(taken)
    for number in range(10):
        given = GivenPermit(bytes([number] * 16), NOW, NOW + 1, TOOL)
        await sender.report(execution_of(given, Outcome(status="success"), NOW), resent=False)
    assert len(sender) == 3
