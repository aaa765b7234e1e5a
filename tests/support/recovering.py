"""Processes that call one shared tool during its recoveries, and the number of probes that reach it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from switchgear import Permit, Switchgear
from switchgear.follower.follower import CircuitFollower
from switchgear_schemas.settings import Settings
from tests.support import waiting
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, python
from tests.support.shared_tool import SharedTool

WAIT_S: Final = 0.7
"""The policy's wait in the open state. It is short, so that twenty recoveries take half a minute."""
MARGIN_S: Final = 0.15
"""The tool recovers at least this long before a probe may be made. A probe in flight would be counted on the wrong side."""
LIMIT_S: Final = HAPPEN_S

CALLER: Final = """
import socket, sys, time
from switchgear import BreakerPolicy, Switchgear
bootstrap, prefix, port, pause = sys.argv[1:5]
# The process's own breaker is off: it would hide a probe too many.
gear = Switchgear(bootstrap, service="caller", topic_prefix=prefix, local_policies=BreakerPolicy(mode="disabled"))
assert gear.start(60)
tool = socket.create_connection(("127.0.0.1", int(port)))
tool.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    permit = gear.try_acquire("shared")
    if permit:
        tool.sendall(b"p" if permit.lease_id else b"c")
        answer = tool.recv(1)
        if answer == b"+":
            permit.success()
        elif answer == b"-":
            permit.failure(ConnectionError("broken"))
        else:
            break
    time.sleep(float(pause))
"""


def policy_text(probes: int, wait_s: float = WAIT_S) -> str:
    """Return a policy file: five failures in a row open a circuit for ``wait_s`` seconds, and ``probes`` successful probes close it."""
    return f"""[default]
consecutive_failures = 5
failure_rate_threshold = "off"
cusum = "off"
minimum_reporters = 1
wait_duration_in_open_state_s = {wait_s}
permitted_number_of_calls_in_half_open_state = {probes}
success_threshold_to_close = {probes}
"""


@asynccontextmanager
async def callers(settings: Settings, tool: SharedTool, count: int, folder: Path) -> AsyncIterator[list[Child]]:
    """Start ``count`` processes that call the tool about a thousand times per second together."""
    pause = max(0.005, count / 1000)
    arguments = [settings.kafka_bootstrap_servers, settings.topic_prefix, str(tool.port), str(pause)]
    started = [python(CALLER, *arguments, log=folder / f"caller-{number}.log") for number in range(count)]
    try:
        await waiting.auntil(lambda: tool.callers >= count, LIMIT_S, lambda: "every caller connected")
        yield started
    finally:
        for child in started:
            child.process.kill()  # all first, then wait: fifty one after the other take a while
        for child in started:
            child.process.wait()


async def recoveries(settings: Settings, tool: SharedTool, probes: int, rounds: int) -> list[tuple[int, int]]:
    """Let the tool fail and recover ``rounds`` times.

    Returns:
        For each recovery the probes and the plain calls that reached the tool between open and closed.
    """
    follower = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    follower.start()
    try:
        return [await _recovery(follower, tool, probes) for _ in range(rounds)]
    finally:
        await asyncio.to_thread(follower.close)


async def _recovery(follower: CircuitFollower, tool: SharedTool, probes: int) -> tuple[int, int]:
    def view(state: str) -> bool:
        found = follower.table.views.get("shared")
        return (found is None and state == "closed") or (found is not None and found.state == state)

    def open_long_enough() -> bool:
        found = follower.table.views.get("shared")
        if found is None or found.state != "open" or found.open_until is None:
            return False
        return time.time() < found.open_until - MARGIN_S and time.monotonic() - tool.last_call > MARGIN_S

    await waiting.auntil(lambda: view("closed"), LIMIT_S, lambda: "closed")
    calls = tool.calls
    await waiting.auntil(lambda: tool.calls > calls + tool.callers, LIMIT_S, lambda: "calls going through")
    tool.state = "broken"
    await waiting.auntil(open_long_enough, LIMIT_S, lambda: "open and quiet")
    recovery = tool.mend(probes)
    await asyncio.wait_for(recovery.over.wait(), LIMIT_S)
    return recovery.probes, recovery.plain


def two_probes(first: Switchgear, second: Switchgear, tool: str) -> list[Permit]:
    """Ask in turn until there are two permits. A request just before the end of the wait gets no answer: it is repeated."""
    probes: list[Permit] = []

    def asked() -> bool:
        probes.extend(answer for gear in (first, second) if isinstance(answer := gear.try_acquire(tool), Permit))
        return len(probes) >= 2

    waiting.until(asked, LIMIT_S, lambda: probes)
    return probes
