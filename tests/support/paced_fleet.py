"""Real processes that share a tool with a quota. They want to call more than it takes, and others of them every few seconds.

Each arm is a way to keep the quota. All arms have the same processes, the same demand and a quota of their own.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from switchgear_schemas.settings import Settings
from tests.support.limits import READY_S
from tests.support.processes import Child, python
from tests.support.quota_server import Quota, QuotaServer

Arm = Literal["nothing", "circuits", "own", "learned", "stated"]
IN_WORDS: Final[dict[Arm, str]] = {
    "nothing": "no pacing",
    "circuits": "circuits alone (429s are failures)",
    "own": "a limit in each process (quota / processes)",
    "learned": "the fleet's pace, learned",
    "stated": "the fleet's pace, stated",
}
CHANGE_S: Final = 7.0
WAIT_S: Final = 5.0
"""Longest wait of a call for its turn, in the arms that wait."""
GAP_S: Final = 8.0
"""Between two arms: calls that wait end, and what one arm asked for is over."""


def policy_text(calls: int, period_s: float) -> str:
    """Return the policies of the tools, one an arm."""
    return f"""
[tools.circuits]
pace = "off"

[tools.learned]
pace = "enforce"
pace_wait_s = {WAIT_S}

[tools.stated]
pace = "enforce"
pace_limit = "{calls}/{period_s:g}s"
pace_wait_s = {WAIT_S}
"""


CALLER: Final = f"""
import asyncio, json, random, sys, time
from pathlib import Path
from switchgear import Switchgear, Classification
from switchgear.pacing.share import Bucket

bootstrap, prefix, port, number, processes, quota, demand, length, start, *arms = sys.argv[1:]
number, processes, quota, demand, length = int(number), int(processes), float(quota), float(demand), float(length)
gear = Switchgear(bootstrap, service="paced", topic_prefix=prefix)
assert gear.start(60)
LIMITED = Classification("rate_limited")
seen = {{arm: {{"asked": 0, "taken": 0, "refused": 0, "given_up": 0, "waits": []}} for arm in arms}}


def wanted(at):
    # Four in ten processes want to call, some four times as much as others. The mean of all is the demand.
    chance = random.Random(int(at // {CHANGE_S}) * 1000 + number)
    return demand / processes / 0.4 * (0.4 + 1.2 * chance.random()) if chance.random() < 0.4 else 0.0


class Tool:
    async def connect(self):
        self.lock = asyncio.Lock()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", int(port))

    async def call(self, place):
        async with self.lock:
            self.writer.write(bytes([place]))
            return await self.reader.readexactly(1) == b"+"


async def one(tool, place, arm, bucket):
    found, began = seen[arm], time.monotonic()
    found["asked"] += 1
    permit = None
    if arm == "own":
        turn = bucket.take(began)
        wait = bucket.wait_s(began, turn)
        if wait > {WAIT_S}:
            bucket.leave(turn)
            found["given_up"] += 1
            return
        while (wait := bucket.wait_s(time.monotonic(), turn)) > 0:
            await asyncio.sleep(wait)
    elif arm != "nothing":
        permit = await gear.atry_acquire(arm)
        if not permit:
            found["given_up"] += 1
            return
    waited = time.monotonic() - began
    if waited > 0.02:
        found["waits"].append(round(waited, 3))
    taken = await tool.call(place)
    found["taken" if taken else "refused"] += 1
    if permit is not None:
        permit.success() if taken else permit.failure("too many requests", classification=LIMITED)


async def main():
    tool = Tool()
    await tool.connect()
    print("ready", flush=True)
    while not Path(start).exists():
        await asyncio.sleep(0.05)
    begin = float(Path(start).read_text())
    for place, arm in enumerate(arms):
        bucket = Bucket(time.monotonic(), quota / processes, 1.0)
        chance = random.Random(number)
        calls, first = [], begin + place * (length + {GAP_S})
        await asyncio.sleep(max(0.0, first - time.time()))
        at = 0.0
        while at < length:
            rate = wanted(at)
            step = chance.expovariate(rate) if rate else 9e9
            change = {CHANGE_S} - at % {CHANGE_S} + 1e-6
            at += min(step, change)
            await asyncio.sleep(max(0.0, first + at - time.time()))
            if step < change and at < length:
                calls.append(asyncio.create_task(one(tool, place, arm, bucket)))
        await asyncio.gather(*calls)
    print("seen", json.dumps(seen), flush=True)


asyncio.run(main())
gear.close()
"""


@dataclass(frozen=True)
class Found:
    """What came of the calls of an arm."""

    arm: Arm
    quota: Quota
    since: float
    until: float
    asked: int
    given_up: int
    waits: list[float]
    """Seconds, of the calls that waited."""

    @property
    def taken(self) -> int:
        """Calls that the server took."""
        return len(self.quota.taken)

    @property
    def refused(self) -> int:
        """Calls that the server refused as too many."""
        return len(self.quota.refused)

    def used(self, after_s: float = 0.0) -> float:
        """Return the share of the quota that was taken, from so many seconds after the begin on."""
        begin = self.since + after_s
        taken = sum(begin <= at < self.until for at in self.quota.taken)
        return taken / (self.quota.calls * (self.until - begin) / self.quota.period_s)

    def fullest(self, after_s: float = 0.0) -> float:
        """Return the calls made in the fullest period, as a share of the quota, from so many seconds after the begin on."""
        return self.quota.fullest(self.since + after_s, self.until + GAP_S)


async def run(
    settings: Settings,
    folder: Path,
    arms: list[Arm],
    *,
    processes: int,
    calls: int,
    period_s: float,
    demand: float,
    length_s: float,
) -> list[Found]:
    """Let each arm run for so long, one after the other. ``demand`` is in calls a second, of all processes."""
    start = folder / "start"
    async with QuotaServer(calls, period_s, len(arms)) as server:
        numbers = [str(value) for value in (processes, calls / period_s, demand, length_s)]
        children: list[Child] = []
        try:
            for number in range(processes):
                given = [settings.kafka_bootstrap_servers, settings.topic_prefix, str(server.port), str(number)]
                log = folder / f"caller-{number}.log"
                children.append(python(CALLER, *given, *numbers, str(start), *arms, log=log))
            for child in children:
                await _until(child, "ready", READY_S)
            begin = time.time() + 1.0
            start.with_suffix(".new").write_text(str(begin))
            start.with_suffix(".new").rename(start)
            seen: list[dict[Arm, dict[str, Any]]] = []
            for child in children:
                await _until(child, "seen ", len(arms) * (length_s + GAP_S) + READY_S)
                line = next(line for line in child.output().splitlines() if line.startswith("seen "))
                seen.append(json.loads(line.removeprefix("seen ")))
        finally:
            for child in children:
                child.process.kill()
            for child in children:
                child.process.wait()
        found = []
        for place, arm in enumerate(arms):
            since = begin + place * (length_s + GAP_S)
            asked, given_up = (sum(each[arm][name] for each in seen) for name in ("asked", "given_up"))
            waits = sorted(wait for each in seen for wait in each[arm]["waits"])
            found.append(Found(arm, server.arms[place], since, since + length_s, asked, given_up, waits))
        return found


async def _until(child: Child, text: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while text not in child.output():
        assert child.alive, child.output()
        assert time.monotonic() < deadline, f"{child.command} did not print {text!r}:\n{child.output()}"
        await asyncio.sleep(0.1)
