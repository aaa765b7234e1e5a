"""A guard over a gateway makes the same promises: the fleet's refusals, exact probes, and its modes without a gateway."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear, SwitchgearError
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from switchgear.over_http.follower import GatewayFollower
from tests.support.gateway_contract import Answer, GatewayServer, circuit, fleet_of_now, gateway_server
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.recovering import two_probes
from tests.support.table import table
from tests.support.waiting import until

LIMIT_S = HAPPEN_S
Make = Callable[..., Switchgear]
WAIT_S = 3.0
POLICY = BreakerPolicy(
    consecutive_failures=3,
    minimum_reporters=1,
    wait_duration_in_open_state_s=WAIT_S,
    permitted_number_of_calls_in_half_open_state=2,
    success_threshold_to_close=2,
)
NO_LOCAL = BreakerPolicy(mode="disabled")


@pytest.fixture
def folding() -> Iterator[GatewayServer]:
    """A server that folds the events with the code of the worker."""
    with gateway_server(fleet_of_now(POLICY)) as running:
        yield running


@pytest.mark.slow
def test_two_processes_share_a_circuit_and_its_recovery_takes_exactly_the_permitted_probes(
    make: Make, folding: GatewayServer
) -> None:
    one, other = (
        make(url=folding.url, service=name, local_policies=NO_LOCAL, probe_wait=5.0, start_wait_s=LIMIT_S)
        for name in ("one", "other")
    )

    @one.guard("search")
    def search() -> None:
        raise ConnectionError("away")

    for _ in range(3):
        with pytest.raises(ConnectionError):
            search()
    until(lambda: all("search" in gear.circuits() for gear in (one, other)), LIMIT_S)
    with pytest.raises(CircuitOpenError) as refused:
        search()
    assert refused.value.rejection.source == "fleet"
    time.sleep(WAIT_S)
    probes = two_probes(one, other, "search")
    assert [probe.lease_id is not None for probe in probes] == [True, True]
    assert isinstance(one.try_acquire("search"), Rejection)
    assert isinstance(other.try_acquire("search"), Rejection)
    for probe in probes:
        probe.success()
    until(lambda: {gear.circuits()["search"].state for gear in (one, other)} == {"closed"}, LIMIT_S)
    assert one.flush(LIMIT_S)
    leases = [event["lease_id"] for event in folding.taken if event.get("lease_id")]
    assert sorted(leases) == sorted(str(probe.lease_id) for probe in probes)


@pytest.mark.slow
def test_the_stream_names_the_process_whose_probe_leases_it_needs(make: Make, server: GatewayServer) -> None:
    gear = make()
    assert gear.start(LIMIT_S)
    assert gear._emitter is not None
    assert parse_qs(server.stream_queries[0]) == {"emitter_id": [gear._emitter.emitter_id]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "mode", "refused"),
    [("last_known", "last_known", True), ("local", "local_only", False), ("deny", "deny", True)],
)
def test_the_first_call_after_a_freeze_decides_without_the_fleets_state(
    make: Make, server: GatewayServer, policy: Any, mode: str, refused: bool
) -> None:
    until_later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    server.circuits = {"open": circuit("open", "open", 1, open_until=until_later)}
    gear = make(on_state_unavailable=policy)
    assert gear.start(LIMIT_S)
    assert isinstance(gear.try_acquire("open"), Rejection)
    assert isinstance(gear.try_acquire("closed"), Permit)
    follower = gear._follower
    assert isinstance(follower, GatewayFollower)
    assert follower._confirmed._at is not None
    server.refuse_streams = Answer(503)
    server.drop_streams()
    until(lambda: not follower.connected, LIMIT_S)
    now, wall = follower._confirmed._at
    follower._confirmed._at = now, wall - 100  # the wall clock went on for 100 s, and the monotonic clock stood still
    answer = gear.try_acquire("open")
    assert isinstance(answer, Rejection) == refused
    assert isinstance(gear.try_acquire("closed"), Rejection) == (policy == "deny")
    assert gear.status().mode == mode


FROZEN = """
import sys, time
from switchgear import Switchgear
from switchgear.over_http import follower
follower.SILENCE_S = follower.GatewayFollower.stale_after_s = 2.0
gear = Switchgear(sys.argv[1], on_state_unavailable="deny", start_wait_s=60)
print("ready" if gear.try_acquire("t") else "refused", flush=True)
for line in sys.stdin:
    if line == "flush\\n":
        print(gear.flush(30), flush=True)
    else:
        print("permitted" if gear.try_acquire("t") else "refused", flush=True)
"""


@pytest.mark.slow
def test_a_frozen_process_notices_at_its_first_call_and_reconnects_once(server: GatewayServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FROZEN, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        server.refuse_streams = Answer(503, headers={"retry-after": "1"})
        server.drop_streams()
        time.sleep(2.5)
        opened = len(server.stream_headers)
        process.stdin.write("call\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "refused\n"
        assert len(server.stream_headers) <= opened + 1
        server.refuse_streams = None
        until(lambda: server.streams == 1, LIMIT_S)
        process.stdin.write("flush\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
        assert len(server.taken) >= 1
    finally:
        process.kill()
        process.communicate()


@table(
    ("url", "options", "said"),
    [
        ("https://user:secret@gateway:8622", {}, "contains a login"),
        ("https://", {}, "like https://gateway:8622"),
        ("http://gateway:port", {}, "like https://gateway:8622"),
        ("https://gateway", {"token": "Bearer sgt_1"}, "has a space"),
        ("https://gateway", {"token": ""}, "one word"),
        ("https://gateway", {"compression": "zstd"}, "compression"),
        ("localhost:9092", {"token": "sgt_1"}, "not the address of one"),
        ("https://gateway", {"state_max_age_s": 20}, "Pass 45 seconds or more"),
    ],
)
def test_an_impossible_address_or_token_is_refused_at_once(url: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SwitchgearError) as refused:
        Switchgear(url, **options)
    assert said in f"{refused.value} {refused.value.hint}"
    assert "secret" not in str(refused.value)
    assert "sgt_1" not in str(refused.value)


@pytest.mark.slow
def test_the_environment_names_the_gateway_and_the_token(
    server: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token = "sgt_right"
    monkeypatch.setenv("SWITCHGEAR_GATEWAY_URL", server.url)
    monkeypatch.setenv("SWITCHGEAR_TOKEN", "sgt_right\n")
    with Switchgear.from_env() as gear:
        assert gear.start(LIMIT_S)
    assert server.stream_headers[0]["authorization"] == "Bearer sgt_right"
    gear = Switchgear.from_env(bootstrap_servers="127.0.0.1:1")  # an argument wins, and Kafka takes no token
    gear.close(0)


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S
    ).stdout.strip()


@pytest.mark.slow
def test_a_client_over_a_gateway_imports_no_kafka(server: GatewayServer) -> None:
    code = f"""
import sys, switchgear
assert "httpx" not in sys.modules
gear = switchgear.Switchgear({server.url!r})
gear.try_acquire("t").success()
assert gear.flush(60)
print([name for name in ("aiokafka", "faust", "pydantic") if name in sys.modules], "httpx" in sys.modules)
gear.close()
"""
    assert run(code) == "[] True"


@pytest.mark.slow
def test_a_missing_http_client_is_named_with_the_command_that_installs_it() -> None:
    code = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "httpx" else found(name, package)
import switchgear
try:
    switchgear.Switchgear("https://gateway:8622")
except switchgear.SwitchgearError as error:
    print(error)
"""
    assert "pip install 'switchgear[gateway-client]'" in run(code)
