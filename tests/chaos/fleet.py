"""The processes under test: kept running as a supervisor keeps them, killed, stopped and woken up on order."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.chaos.polling import until
from tests.support.processes import Child

Role = Literal["worker", "sink", "emitter", "guard"]
Start = Callable[["Member"], Child]
RESTART_S = 0.5
"""A supervisor's pause before it starts again what ended."""
TERM_S = 25.0


@dataclass(eq=False)
class Member:
    """One place in the fleet: a process of its role runs in it, again and again."""

    role: Role
    name: str
    start: Start
    wanted: bool = True
    spawned: int = 0
    child: Child | None = None
    ended_by_itself: list[int] = field(default_factory=list)
    """Exit codes of processes that ended by themselves."""
    ordered: bool = False
    not_before: float = 0.0

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive

    def spawn(self) -> None:
        """Start it. Main thread."""
        self.ordered = False
        self.spawned += 1
        self.child = self.start(self)

    def order(self, number: signal.Signals) -> bool:
        """Send a signal; False where nothing runs."""
        if not self.alive:
            return False
        assert self.child is not None
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.ordered = True
        self.child.process.send_signal(number)
        return True


class Fleet:
    """All members; :meth:`supervise` starts again what ended."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.members: list[Member] = []
        self.pauses: list[tuple[str, float, float]] = []
        """Member, and from when to when it was stopped (seconds since 1970)."""

    def add(self, role: Role, name: str, start: Start) -> Member:
        """A new member, started now."""
        member = Member(role, name, start)
        self.members.append(member)
        member.spawn()
        return member

    def of(self, *roles: Role) -> list[Member]:
        """Wanted members of these roles."""
        return [member for member in self.members if member.role in roles and member.wanted]

    async def supervise(self) -> None:
        """Until cancelled."""
        while True:
            for member in self.members:
                self._look_after(member, time.monotonic())
            await asyncio.sleep(0.1)

    def _look_after(self, member: Member, now: float) -> None:
        if not member.wanted or member.alive:
            return
        if not member.not_before:
            assert member.child is not None
            if not member.ordered:
                member.ended_by_itself.append(member.child.process.returncode)
            member.not_before = now + RESTART_S
        elif now >= member.not_before:
            member.not_before = 0.0
            member.spawn()

    async def retire(self, member: Member, *, kill: bool = False) -> int | None:
        """End a member for good; its exit code, None where nothing ran."""
        member.wanted = False
        if not member.order(signal.SIGKILL if kill else signal.SIGTERM):
            return None
        member.order(signal.SIGCONT)
        assert member.child is not None
        if not await until(lambda: not member.alive, TERM_S):
            member.child.process.kill()
        return member.child.process.wait()

    async def paused(self, member: Member, seconds: float) -> bool:
        """SIGSTOP, and SIGCONT after ``seconds``; whether the very process was still there to wake up."""
        child, since = member.child, time.time()
        if child is None or not member.order(signal.SIGSTOP):
            return False
        try:
            await asyncio.sleep(seconds)
        finally:
            if child.alive:
                child.process.send_signal(signal.SIGCONT)
            self.pauses.append((f"{member.name}-{member.spawned}", since, time.time()))
        return child.alive

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for member in self.members:
            member.wanted = False
            if member.alive:
                assert member.child is not None
                member.child.process.kill()
                member.child.process.wait()
