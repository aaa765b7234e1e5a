"""Faults of processes: killed, ended, stopped for longer than their session, joining and leaving, or with a wrong clock."""

from __future__ import annotations

import asyncio
import signal

from tests.chaos.faults.kind import Act, Kind
from tests.chaos.fleet import Member, Role
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import SESSION_S, Stage
from tests.support.waiting import holds_within

BACK_S = 60.0
JOIN_EVERY_S = 3.0
CLOCK_OFF_S = 600.0
CLOCK_OFF_RATE = 100.0
ROLES: dict[str, tuple[Role, ...]] = {
    "worker": ("worker",),
    "sink": ("sink",),
    "gateway": ("gateway",),
    "emitter": ("emitter", "guard", "poster"),
}


def _chosen(stage: Stage, roles: tuple[Role, ...], planned: Planned) -> Member:
    members = stage.fleet.of(*roles)
    return members[planned.choice % len(members)]


async def _back(member: Member, life: int) -> str:
    """Wait until the supervisor has restarted the member."""
    back = await holds_within(lambda: member.spawned > life and member.alive, BACK_S)
    return "running again" if back else f"NOT RUNNING after {BACK_S:g} s"


def _killed(roles: tuple[Role, ...]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        life = member.spawned
        running = member.order(signal.SIGKILL)
        await asyncio.sleep(planned.seconds)
        return f"{member.name} {'killed' if running else 'was down already'}, {await _back(member, life)}"

    return act


def _ended(roles: tuple[Role, ...]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        life, child = member.spawned, member.child
        if child is None or not member.order(signal.SIGTERM):
            return f"{member.name} was down already, {await _back(member, life)}"
        if not await holds_within(lambda: not child.alive, BACK_S):
            child.process.kill()
            return f"{member.name} DID NOT END within {BACK_S:g} s of SIGTERM and was killed"
        return f"{member.name} ended with {child.process.returncode}, {await _back(member, life)}"

    return act


def _asleep(roles: tuple[Role, ...]) -> Act:
    session_s = 0.0 if roles == ("gateway",) else SESSION_S  # a gateway has no session that could end

    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        seconds = session_s + planned.seconds
        woke = await stage.fleet.paused(member, seconds)
        return f"{member.name} slept {seconds:.1f} s{' and woke up' if woke else '; it had ended'}"

    return act


async def _storm(stage: Stage, planned: Planned) -> str:
    joined = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + planned.seconds
    guests = []
    try:
        while loop.time() < end:
            guests.append(stage.fleet.add("worker", f"guest-{planned.choice % 1000}-{joined}", stage.starts("worker")))
            joined += 1
            await asyncio.sleep(JOIN_EVERY_S)
            if len(guests) > 1:
                await stage.fleet.retire(guests.pop(0), kill=joined % 3 == 0)
    finally:
        for guest in guests:
            await stage.fleet.retire(guest)
    return f"{joined} workers joined and left"


async def _off(stage: Stage, planned: Planned) -> str:
    clock = CLOCK_OFF_S if planned.choice % 2 else -CLOCK_OFF_S
    guest = stage.fleet.add("emitter", f"clock-{planned.choice % 10_000}", stage.loads("emit", CLOCK_OFF_RATE, clock))
    try:
        await asyncio.sleep(planned.seconds)
    finally:
        code = await stage.fleet.retire(guest)
    return f"{guest.name}, {clock:+.0f} s, ended with {code}"


def kinds() -> dict[str, Kind]:
    """Return ``kill``, ``end`` and ``sleep`` for each role, ``rebalance-storm`` and ``clock-off``."""
    found = {}
    for name, roles in ROLES.items():
        found[f"{name}-kill"] = Kind(Span(name, 1, 3), _killed(roles))
        found[f"{name}-end"] = Kind(Span(name, 3, 6), _ended(roles))
        found[f"{name}-sleep"] = Kind(Span(name, 4, 7) if name == "gateway" else Span(name, 3, 6), _asleep(roles))
    found["rebalance-storm"] = Kind(Span("worker", 9, 15), _storm)
    found["clock-off"] = Kind(Span("clock", 4, 8), _off)
    return found
