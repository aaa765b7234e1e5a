"""The processes under test, with a supervisor that restarts them. They can be killed, stopped and continued."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.processes import Child
from tests.support.waiting import holds_within

Role = Literal["worker", "sink", "gateway", "emitter", "guard", "poster"]
Start = Callable[["Member"], Child]
RESTART_S = 0.5
"""Pause before the supervisor restarts a process that ended."""
TERM_S = 25.0


@dataclass(eq=False)
class Member:
    """A place in the fleet, in which a process runs and is restarted."""

    role: Role
    name: str
    start: Start
    wanted: bool = True
    spawned: int = 0
    child: Child | None = None
    ended_by_itself: list[int] = field(default_factory=list)
    """The exit codes of ends that were not ordered."""
    ordered: bool = False
    not_before: float = 0.0

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive

    def spawn(self) -> None:
        """Start the process. Call it in the main thread."""
        self.ordered = False
        self.spawned += 1
        self.child = self.start(self)

    def order(self, number: signal.Signals) -> bool:
        """Send a signal. Return False if no process runs."""
        if not self.alive:
            return False
        assert self.child is not None
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.ordered = True
        self.child.process.send_signal(number)
        return True


class Fleet:
    """All members. :meth:`supervise` restarts those that ended."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.members: list[Member] = []
        self.pauses: list[tuple[str, float, float]] = []
        """Members that were stopped, with start and end in seconds since 1970."""

    def add(self, role: Role, name: str, start: Start) -> Member:
        """Add a member and start it."""
        member = Member(role, name, start)
        self.members.append(member)
        member.spawn()
        return member

    def of(self, *roles: Role) -> list[Member]:
        """Return the members of these roles that are not retired."""
        return [member for member in self.members if member.role in roles and member.wanted]

    async def supervise(self) -> None:
        """Restart members that ended, until cancelled."""
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
        """End a member, and do not restart it. Return its exit code; None if no process ran."""
        member.wanted = False
        if not member.order(signal.SIGKILL if kill else signal.SIGTERM):
            return None
        member.order(signal.SIGCONT)
        assert member.child is not None
        if not await holds_within(lambda: not member.alive, TERM_S):
            member.child.process.kill()
        return member.child.process.wait()

    async def paused(self, member: Member, seconds: float) -> bool:
        """Stop a member with SIGSTOP, and continue it after ``seconds``. Return whether the same process was still there."""
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
        """Kill every process."""
        for member in self.members:
            member.wanted = False
            if member.alive:
                assert member.child is not None
                member.child.process.kill()
                member.child.process.wait()
