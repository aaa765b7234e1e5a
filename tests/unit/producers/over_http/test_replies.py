"""What the answer to a request with events means for each of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from switchgear.over_http.gateway import Gateway
from switchgear.over_http.replies import GatewayReply, not_reached, read_reply

GATEWAY = Gateway("http://gateway:8622", "sgt_secret")


def reply(status: int, body: Any, count: int = 3, **headers: str) -> GatewayReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_reply(GATEWAY, status, named, json.dumps(body).encode(), count)


def test_an_answer_with_all_accepted_leaves_nothing_to_do() -> None:
    assert reply(200, {"accepted": 3, "rejected": []}) == GatewayReply()


def test_what_the_gateway_says_about_this_process_is_part_of_the_reply() -> None:
    said = ["host:7:a: its clock is 7 min ahead of the broker's"]
    assert reply(200, {"accepted": 3, "rejected": [], "warnings": said}) == GatewayReply(warnings=said)
    unknown = reply(503, {"accepted": 2, "rejected": [], "unknown": [2], "warnings": said})
    assert (unknown.again, unknown.warnings) == ([2], said)


def test_rejected_events_are_final_and_the_others_are_acknowledged() -> None:
    found = reply(200, {"accepted": 2, "rejected": [{"index": 1, "reason": "status: missing"}]})
    assert (found.rejected, found.again, found.problem) == ({1: "status: missing"}, [], None)


def test_events_after_the_last_named_rejection_are_sent_again_to_learn_their_reasons() -> None:
    named = [{"index": index, "reason": "bad"} for index in range(100)]
    found = reply(200, {"accepted": 50, "rejected": named}, count=200)
    assert found.again == [*range(100, 200)]
    assert found.resent
    assert found.problem is None


def test_unknown_events_are_sent_again_marked_as_resent() -> None:
    found = reply(
        503, {"detail": "Kafka did not say", "accepted": 1, "rejected": [{"index": 0}], "unknown": [2]}, retry_after="1"
    )
    assert (found.rejected, found.again, found.resent, found.wait_s) == ({0: ""}, [2], True, 1.0)
    assert found.down


def test_an_outage_without_a_list_makes_every_event_unknown() -> None:
    found = reply(503, {"title": "Service Unavailable", "status": 503})
    assert (found.again, found.resent, found.down) == ([0, 1, 2], True, True)


@pytest.mark.parametrize("status", [408, 500, 502, 504])
def test_after_an_error_in_which_kafka_may_have_the_events_they_are_marked_as_resent(status: int) -> None:
    found = reply(status, {"detail": "It broke."})
    assert (found.again, found.resent, found.down) == ([0, 1, 2], True, True)


def test_back_pressure_took_nothing_and_says_how_long_to_wait() -> None:
    found = reply(429, {"detail": "Too many wait."}, retry_after="7")
    assert (found.again, found.resent, found.down, found.wait_s) == ([0, 1, 2], False, False, 7.0)


def test_a_refused_token_is_named_with_what_the_gateway_says_and_without_its_text() -> None:
    found = reply(401, {"detail": "The token is revoked."})
    assert found.problem is not None
    assert "http://gateway:8622 answered 401: The token is revoked" in found.problem
    assert "SWITCHGEAR_TOKEN" in found.problem
    assert "sgt_secret" not in found.problem + repr(GATEWAY)
    assert (found.again, found.resent, found.down) == ([0, 1, 2], False, True)
    found = reply(403, {"detail": "This needs the role emit. The token has: read."})
    assert "This needs the role emit. The token has: read. The token needs the role emit" in str(found.problem)


def test_a_request_that_is_too_large_is_split_until_one_event_is_left() -> None:
    assert reply(413, {}).split
    assert reply(413, {"detail": "too large"}, count=1).rejected.keys() == {0}


def test_a_request_that_is_wrong_is_refused_as_a_whole() -> None:
    assert reply(400, {"detail": "not NDJSON"}).rejected.keys() == {0, 1, 2}


def test_an_answer_that_no_gateway_gives_is_an_outage() -> None:
    found = read_reply(GATEWAY, 200, {}, b"<html>Welcome to the hotel</html>", 2)
    assert (found.again, found.down) == ([0, 1], True)
    assert reply(404, {}).down
    assert reply(302, {}).down


def test_events_of_a_request_that_was_never_sent_are_not_marked() -> None:
    assert not not_reached("refused", 2, sent=False).resent
    assert not_reached("cut", 2, sent=True).resent
