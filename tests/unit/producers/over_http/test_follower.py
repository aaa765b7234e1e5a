"""The circuits of a gateway's stream: snapshots, changes, resumed streams, and a gateway that is out of date, silent or away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from switchgear import FunctionHooks, Switchgear
from switchgear.over_http import follower as module
from switchgear.over_http.follower import GatewayFollower
from switchgear.over_http.gateway import Gateway
from switchgear.runtime.background_thread import Background
from tests.support.gateway_contract import Answer, GatewayServer, circuit
from tests.support.limits import HAPPEN_S
from tests.support.waiting import until

LIMIT_S = HAPPEN_S
Make = Callable[..., Switchgear]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnect soon."""
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "_LOOK_S", 0.02)


@pytest.fixture
def follow(server: GatewayServer, quick: None) -> Iterator[Callable[..., GatewayFollower]]:
    backgrounds = []

    def followed(token: str | None = None, **clocks: Callable[[], float]) -> GatewayFollower:
        background = Background("test")
        backgrounds.append(background)
        follower = GatewayFollower(Gateway(server.url, token), background=background, **clocks)
        follower.broker_time.wall = clocks.get("wall", time.time)  # before its thread hears the gateway's time
        follower.start()
        return follower

    yield followed
    for each in backgrounds:
        each.close(5)


Follow = Callable[..., GatewayFollower]


def states(follower: GatewayFollower) -> dict[str, str]:
    return dict(follower.table.states())


@pytest.mark.slow
def test_circuits_come_as_a_snapshot_and_as_changes(follow: Follow, server: GatewayServer) -> None:
    server.circuits = {"a": circuit("a", "open", 3), "b": circuit("b", "closed", 1)}
    follower = follow()
    assert follower.wait_loaded(LIMIT_S)
    assert states(follower) == {"a": "open", "b": "closed"}
    status = follower.status()
    assert (status.loaded, status.connected, status.stale, status.last_error) == (True, True, False, None)
    server.publish(circuit("a", "closed", 4))
    server.publish(circuit("b", "open", 1))  # not newer
    server.remove("b")
    server.publish(circuit("c", "half_open", 1))
    until(lambda: states(follower) == {"a": "closed", "c": "half_open"}, LIMIT_S)


@pytest.mark.slow
def test_a_broken_stream_is_resumed_and_a_snapshot_replaces_what_was_missed(
    follow: Follow, server: GatewayServer
) -> None:
    server.publish(circuit("a", "closed", 1))
    follower = follow()
    assert follower.wait_loaded(LIMIT_S)
    server.drop_streams()
    until(lambda: len(server.stream_headers) == 2, LIMIT_S)
    assert [headers.get("last-event-id") for headers in server.stream_headers] == [None, "c1"]
    until(lambda: server.streams == 1, LIMIT_S)
    server.refuse_streams = Answer(503, {"detail": "This gateway has not read the circuits yet."})
    server.drop_streams()
    until(lambda: "has not read the circuits yet" in str(follower.status().last_error), LIMIT_S)
    server.publish(circuit("b", "open", 1))
    server.remove("a")
    server.refuse_streams = None
    until(lambda: states(follower) == {"b": "open"}, LIMIT_S)


@pytest.mark.slow
def test_events_that_are_no_circuits_are_counted_and_skipped(
    follow: Follow, server: GatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    follower = follow()
    assert follower.wait_loaded(LIMIT_S)
    with caplog.at_level(logging.WARNING, "switchgear.follower"):
        server.send_raw(
            b"event: circuit\ndata: {broken\n\nevent: circuit\ndata: 1\n\nevent: snapshot\ndata: []\n\n: hm\n\n"
        )
        server.publish(circuit("a", "open", 1))
        until(lambda: states(follower) == {"a": "open"}, LIMIT_S)
    assert follower.status().malformed == 3
    assert len(server.stream_headers) == 1
    assert len(caplog.records) == 1


@pytest.mark.slow
def test_a_gateway_that_is_out_of_date_confirms_nothing_and_its_snapshot_takes_nothing_away(
    follow: Follow, server: GatewayServer
) -> None:
    server.circuits = {"a": circuit("a", "open", 5), "b": circuit("b", "open", 2)}
    follower = follow()
    assert follower.wait_loaded(LIMIT_S)
    confirmed = follower._confirmed._at
    server.heartbeat = {"fresh": False}
    server.circuits = {"a": circuit("a", "closed", 4), "c": circuit("c", "open", 1)}
    server.forget()
    server.drop_streams()
    until(lambda: "c" in states(follower), LIMIT_S)
    assert states(follower) == {"a": "open", "b": "open", "c": "open"}
    assert follower._confirmed._at == confirmed
    server.send("heartbeat", {"fresh": True})
    until(lambda: follower._confirmed._at != confirmed, LIMIT_S)


@pytest.mark.slow
def test_a_first_snapshot_of_a_gateway_that_is_out_of_date_is_not_loaded(follow: Follow, server: GatewayServer) -> None:
    server.heartbeat = {"fresh": False}
    server.circuits = {"a": circuit("a", "open", 1)}
    follower = follow()
    until(lambda: states(follower) == {"a": "open"}, LIMIT_S)
    assert not follower.loaded
    assert follower.age_s() is None
    server.send("heartbeat", {"fresh": True})
    assert follower.wait_loaded(LIMIT_S)


@pytest.mark.slow
def test_a_silent_stream_is_left_by_the_clock_that_goes_on_during_a_freeze(
    follow: Follow, server: GatewayServer
) -> None:
    frozen_s = 0.0
    follower = follow(wall=lambda: time.time() + frozen_s)
    assert follower.wait_loaded(LIMIT_S)
    assert len(server.stream_headers) == 1
    frozen_s = 100.0
    assert follower.status().stale
    until(lambda: len(server.stream_headers) == 2 and not follower.status().stale, LIMIT_S)
    time.sleep(0.2)
    assert len(server.stream_headers) == 2  # no burst


@pytest.mark.slow
def test_a_refused_token_ends_in_one_clear_error_and_no_further_request(
    follow: Follow, server: GatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.token = "sgt_other"
    with caplog.at_level(logging.WARNING, "switchgear.follower"):
        follower = follow("sgt_mine")
        until(lambda: follower.status().last_error, LIMIT_S)
        time.sleep(0.2)
    assert "answered 401: The token is unknown" in str(follower.status().last_error)
    assert len(caplog.records) == 1
    assert "sgt_mine" not in caplog.text
    assert server.stream_headers == []


@pytest.mark.slow
def test_reconnects_to_a_gateway_that_is_away_back_off(
    follow: Follow, server: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def note(pause: float) -> float:
        pauses.append(pause)
        return 0.0

    monkeypatch.setattr(module, "_jitter", note)
    server.refuse_streams = Answer(503)
    follower = follow()
    until(lambda: len(pauses) >= 8, LIMIT_S)
    assert pauses[:5] == sorted(pauses[:5])
    assert pauses[4] > pauses[0]
    server.refuse_streams = None
    assert follower.wait_loaded(LIMIT_S)


@pytest.mark.slow
def test_the_clock_of_the_gateway_corrects_one_that_is_ahead(follow: Follow) -> None:
    follower = follow(wall=lambda: time.time() + 90)
    assert follower.wait_loaded(LIMIT_S)
    assert abs(follower.broker_time() - time.time()) < 2


@pytest.mark.slow
def test_hooks_get_changes_and_not_the_first_snapshot(make: Make, server: GatewayServer, quick: None) -> None:
    seen: list[tuple[str, str]] = []
    server.circuits = {"a": circuit("a", "open", 1)}
    gear = make(hooks=[FunctionHooks(on_transition=lambda change: seen.append((change.tool, change.state)))])
    assert gear.start(LIMIT_S)
    server.publish(circuit("b", "open", 1))
    until(lambda: seen == [("b", "open")], LIMIT_S)
