"""Processes that are killed, terminated, or paused for longer than their session."""

from __future__ import annotations

import asyncio
import signal

from tests.chaos.faults.kind import Act, Kind
from tests.chaos.fleet import Member, Role
from tests.chaos.polling import until
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import SESSION_S, Stage

BACK_S = 60.0
ROLES: dict[str, tuple[Role, ...]] = {
    "worker": ("worker",),
    "sink": ("sink",),
    "emitter": ("emitter", "guard"),
}


def _chosen(stage: Stage, roles: tuple[Role, ...], planned: Planned) -> Member:
    members = stage.fleet.of(*roles)
    return members[planned.choice % len(members)]


async def _back(member: Member, life: int) -> str:
    """Until its supervisor has started it again."""
    back = await until(lambda: member.spawned > life and member.alive, BACK_S)
    return "running again" if back else f"NOT RUNNING after {BACK_S:g} s"


def _killed(roles: tuple[Role, ...]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        life = member.spawned
        running = member.order(signal.SIGKILL)
        await asyncio.sleep(planned.seconds)
        return f"{member.name} {'killed' if running else 'was down already'}, {await _back(member, life)}"

    return act


def _told_to_end(roles: tuple[Role, ...]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        life, child = member.spawned, member.child
        if child is None or not member.order(signal.SIGTERM):
            return f"{member.name} was down already, {await _back(member, life)}"
        if not await until(lambda: not child.alive, BACK_S):
            child.process.kill()
            return f"{member.name} DID NOT END within {BACK_S:g} s of SIGTERM and was killed"
        return f"{member.name} ended with {child.process.returncode}, {await _back(member, life)}"

    return act


def _asleep(roles: tuple[Role, ...]) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        member = _chosen(stage, roles, planned)
        seconds = SESSION_S + planned.seconds
        woke = await stage.fleet.paused(member, seconds)
        return f"{member.name} slept {seconds:.1f} s{' and woke up' if woke else '; it had ended'}"

    return act


def kinds() -> dict[str, Kind]:
    """``kill``, ``end`` and ``sleep`` for each role."""
    found = {}
    for name, roles in ROLES.items():
        found[f"{name}-kill"] = Kind(Span(name, 1, 3), _killed(roles))
        found[f"{name}-end"] = Kind(Span(name, 3, 6), _told_to_end(roles))
        found[f"{name}-sleep"] = Kind(Span(name, 3, 6), _asleep(roles))
    return found
