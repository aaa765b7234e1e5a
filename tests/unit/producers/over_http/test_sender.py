"""Events reach a gateway, or count as lost: through back-pressure, outages, answers that get lost, and refusals."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchgear import Switchgear
from switchgear.emitter.record_batch import RecordBatch
from switchgear.over_http import sender as module
from switchgear.over_http.sender import take
from tests.support.gateway_contract import CUT, Answer, GatewayServer
from tests.support.limits import HAPPEN_S
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LIMIT_S = HAPPEN_S
Make = Callable[..., Switchgear]
TAKEN: dict[str, Any] = {"accepted": 1, "rejected": []}


def call(gear: Switchgear, tool: str = "search", error: Exception | None = None) -> None:
    permit = gear.try_acquire(tool)
    assert permit
    if error is None:
        permit.success()
    else:
        permit.failure(error)


def ids(events: list[dict[str, Any]]) -> set[str]:
    return {event["metric_id"] for event in events}


def test_events_go_in_one_compressed_request_with_the_token(make: Make, server: GatewayServer) -> None:
    server.token = "sgt_right"
    gear = make(token="sgt_right", service="planner")
    for _ in range(300):
        call(gear)
    assert gear.flush(LIMIT_S)
    assert len(ids(server.taken)) == 300
    assert {event["service"] for event in server.taken} == {"planner"}
    large = max(server.requests, key=lambda request: len(request.events))
    assert large.headers["content-encoding"] == "gzip"
    assert large.headers["content-type"] == "application/x-ndjson"
    assert "switchgear-resent" not in large.headers
    status = gear.status().emitter
    assert status is not None
    assert (status.emitted, status.acknowledged, status.connected) == (300, 300, True)


def test_back_pressure_is_waited_for_and_the_events_are_not_marked(make: Make, server: GatewayServer) -> None:
    server.next_answers.append(Answer(429, {"detail": "Too many wait."}, {"retry-after": "0.05"}))
    gear = make()
    call(gear)
    assert gear.flush(LIMIT_S)
    first, second = server.requests
    assert first.events == second.events
    assert "switchgear-resent" not in second.headers


@pytest.mark.parametrize(
    "fault",
    [
        CUT,
        Answer(502, takes=True),
        Answer(503, {"accepted": 0, "rejected": [], "unknown": [0]}, {"retry-after": "0"}, takes=True),
    ],
    ids=["answer cut", "bad gateway", "unknown"],
)
def test_events_whose_answer_is_lost_are_sent_again_with_their_ids_and_marked(
    make: Make, server: GatewayServer, fault: Any
) -> None:
    server.next_answers.append(fault)
    gear = make()
    call(gear)
    assert gear.flush(LIMIT_S)
    first, second = server.requests
    assert first.events == second.events
    assert second.headers["switchgear-resent"] == "true"
    assert len(ids(server.taken)) == 1
    call(gear)
    assert gear.flush(LIMIT_S)
    assert "switchgear-resent" not in server.requests[-1].headers


def test_only_unknown_events_are_sent_again(make: Make, server: GatewayServer) -> None:
    server.next_answers.append(Answer(429, headers={"retry-after": "0.2"}))  # so that the next request has all three
    server.next_answers.append(
        Answer(503, {"accepted": 1, "rejected": [{"index": 0, "reason": "no"}], "unknown": [2]}, {"retry-after": "0"})
    )
    gear = make(buffer_size=10)
    for tool in "abc":
        gear._emitter.emit({"tool_name": tool, "status": "success", "execution_time_ms": 1})  # type: ignore[union-attr]
    gear.start()
    assert gear.flush(LIMIT_S)
    tools = [[event["tool_name"] for event in request.events] for request in server.requests]
    assert tools[-2:] == [["a", "b", "c"], ["c"]]
    status = gear.status().emitter
    assert status is not None
    assert (status.acknowledged, status.failed) == (2, 1)


def test_rejected_events_are_counted_and_take_one_line_of_the_log(
    make: Make, server: GatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    rejected = [{"index": index, "reason": "tool_name: the token may not send for this tool"} for index in range(2)]
    server.next_answers.append(Answer(429, headers={"retry-after": "0.2"}))
    server.next_answers.append(Answer(200, {"accepted": 1, "rejected": rejected}))
    gear = make()
    for tool in "abc":
        gear._emitter.emit({"tool_name": tool, "status": "success", "execution_time_ms": 1})  # type: ignore[union-attr]
    assert gear.flush(LIMIT_S)
    status = gear.status().emitter
    assert status is not None
    assert (status.acknowledged, status.failed) == (1, 2)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert lines == [f"2 events were refused by the gateway, the first one: {rejected[0]['reason']}"]


def test_what_the_gateway_says_about_this_process_is_in_the_log(
    make: Make, server: GatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    said = "planner:7:a: its clock is 7 min ahead of the broker's. Synchronise the clock of its machine."
    server.next_answers.append(Answer(200, TAKEN | {"warnings": [said, said, "x" * 1_000]}, takes=True))
    gear = make()
    with caplog.at_level(logging.WARNING, "switchgear.emitter"):
        call(gear)
        assert gear.flush(LIMIT_S)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"the gateway says: {said}", f"the gateway says: {'x' * 500}"]


def test_a_refused_token_is_said_clearly_and_the_events_wait(make: Make, server: GatewayServer) -> None:
    server.token = "sgt_other"
    gear = make(token="sgt_mine")
    call(gear)
    assert not gear.flush(0.5)
    until(lambda: gear.status().emitter.last_error, LIMIT_S)  # type: ignore[union-attr]
    status = gear.status().emitter
    assert status is not None
    assert "401: The token is unknown" in str(status.last_error)
    assert "SWITCHGEAR_TOKEN" in str(status.last_error)
    assert (status.buffered, status.connected) == (1, False)


def test_a_gateway_that_is_away_at_first_gets_the_events_later(make: Make, server: GatewayServer) -> None:
    server.stop()
    gear = make()
    for _ in range(3):
        call(gear)
    until(lambda: not gear.status().emitter.connected, LIMIT_S)  # type: ignore[union-attr]
    assert server.taken == []
    server.start_again()
    assert gear.flush(LIMIT_S)
    assert len(ids(server.taken)) == 3


@pytest.mark.slow
def test_events_of_a_process_that_ends_without_a_gateway_are_in_the_spool_of_the_next(
    make: Make, server: GatewayServer, tmp_path: Path
) -> None:
    server.stop()
    gear = make(spool_dir=tmp_path)
    for _ in range(5):
        call(gear, error=ConnectionError("away"))
    until(lambda: gear.status().emitter.spooled == 5, LIMIT_S)  # type: ignore[union-attr]
    gear.close(0)
    server.start_again()
    with make(spool_dir=tmp_path) as following:
        until(lambda: len(ids(server.taken)) == 5, LIMIT_S)
        assert following.flush(LIMIT_S)


def test_a_connection_that_is_older_than_a_freeze_is_not_used(make: Make, server: GatewayServer) -> None:
    gear = make()
    call(gear)
    assert gear.flush(LIMIT_S)
    outbox = gear._emitter._outbox  # type: ignore[union-attr]
    assert isinstance(outbox, module.GatewaySender)
    client = outbox._client
    outbox._wall = lambda: outbox._used_at + 600  # the process was frozen for ten minutes
    call(gear)
    assert gear.flush(LIMIT_S)
    assert client is not None
    assert client.is_closed
    assert "switchgear-resent" not in server.requests[-1].headers


def test_a_request_has_as_many_records_as_fit_and_only_those_sent_before_or_only_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    waiting = deque(
        [
            RecordBatch("a", [b"1"], resent=True),
            RecordBatch("a", [b"2", b"3", b"4"]),
            RecordBatch("b", [b"x" * 50]),
            RecordBatch("c", [b"5", b"6" * 6, b"7" * 6]),
        ]
    )
    taken = []
    while waiting:
        taken.append([value for batch in take(waiting, 2) for value in batch.values])
    assert taken == [[b"1"], [b"2", b"3"], [b"4"], [b"x" * 50], [b"5", b"6" * 6], [b"7" * 6]]
