"""Start components in order, watch them, restart them and stop them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import httpx

from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_cli.local.kafka import HOST, LocalKafka, brokers_online
from switchgear_schemas.errors import SwitchgearError

MAX_BYTES: Final = 10 * 1024 * 1024
_TAIL_BYTES: Final = 16_384


def rotate(file: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Copy a file that has grown past ``max_bytes`` to ``<file>.1`` and empty it; two files bound the space.

    The child keeps writing to the same open file (in append mode, so at its new end). Lines that it writes between
    the copy and the cut are lost: a log is allowed that, and no child waits for us.

    Returns:
        Whether it was rotated.
    """
    try:
        if file.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    aside = file.with_name(f"{file.name}.1")
    try:
        shutil.copyfile(file, aside)
    except OSError:  # a full disk: emptying the log is then the more urgent
        aside.unlink(missing_ok=True)
    with file.open("r+b") as stream:
        stream.truncate(0)
    return True


def last_line(file: Path) -> str:
    """The last line that is not empty; ``""`` where there is none. Short: it goes into a sentence."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(file.stat().st_size - _TAIL_BYTES, 0))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return next((line.strip()[:400] for line in reversed(text.splitlines()) if line.strip()), "")


_STEP_S: Final = 0.1
_TEND_EVERY_S: Final = 5.0
# A component that dies this often before it was ever ready will not get better by itself.
START_ATTEMPTS: Final = 3


@dataclass(slots=True)
class Supervised:
    """A component and what is known of it."""

    component: Component
    watch: Watch


class Supervisor:
    """Owner of the child processes. Everything but ``is_ready`` runs in the main thread.

    Args:
        clock: Monotonic seconds.
        notify: Told of every change of phase, after it.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        notify: Callable[[Supervised], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._notify = notify
        self._tended_at = clock()
        self.all: list[Supervised] = []

    def start(self, component: Component) -> None:
        """Start a component and watch it from now on."""
        supervised = Supervised(component, Watch())
        self.all.append(supervised)
        self._spawn(supervised)

    async def step(self) -> None:
        """Look at each component once, and do what is due."""
        now = self._clock()
        for supervised in self.all:
            watch, component = supervised.watch, supervised.component
            if watch.phase in {Phase.STARTING, Phase.RUNNING}:
                how = component.ended()
                if how is not None:
                    self._change(supervised, died(watch, now, how))
                elif watch.phase is Phase.STARTING and await component.is_ready():
                    self._change(supervised, became_ready(watch, self._clock()))
            elif due(watch, now):
                self._spawn(supervised)
        if now - self._tended_at >= _TEND_EVERY_S:
            self._tended_at = now
            for supervised in self.all:
                supervised.component.tend()

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(_STEP_S)

    async def wait_ready(self, names: Sequence[str], timeout_s: float) -> None:
        """Until these components were ready once, while ``run`` runs elsewhere.

        Raises:
            SwitchgearError: One died ``START_ATTEMPTS`` times before it was ready, or the time is over; it says which,
                what it said last, and where its log is.
        """
        deadline = self._clock() + timeout_s
        waiting = [supervised for supervised in self.all if supervised.component.name in names]
        while not all(supervised.watch.ever_ready for supervised in waiting):
            for supervised in waiting:
                watch, component = supervised.watch, supervised.component
                if not watch.ever_ready and watch.streak >= START_ATTEMPTS:
                    raise SwitchgearError(
                        f"The {component.name} ended {watch.streak} times before it was ready ({watch.problem}).",
                        hint=f"Its log: {component.log_file}.",
                    )
                if not watch.ever_ready and self._clock() >= deadline:
                    raise SwitchgearError(
                        f"The {component.name} was not ready within {timeout_s:.0f} s.",
                        hint=f"Its log: {component.log_file}.",
                    )
            await asyncio.sleep(_STEP_S / 2)

    async def stop(self, names: Sequence[str], timeout_s: float, hurry: asyncio.Event) -> None:
        """End these components together: SIGTERM, then SIGKILL after ``timeout_s`` seconds or at once on ``hurry``.

        Nobody steps any more: what ends now is not started again.
        """
        ending = [supervised for supervised in self.all if supervised.component.name in names]
        for supervised in ending:
            supervised.component.terminate()
        deadline = self._clock() + timeout_s
        while any(supervised.component.pid is not None for supervised in ending):
            if hurry.is_set() or self._clock() >= deadline:
                break
            await asyncio.sleep(_STEP_S / 5)
        for supervised in ending:
            supervised.component.kill()
            self._change(supervised, stopped(supervised.watch, self._clock()))

    def _spawn(self, supervised: Supervised) -> None:
        now = self._clock()
        try:
            supervised.component.spawn()
        except SwitchgearError as error:
            self._change(supervised, died(spawned(supervised.watch, now), now, str(error)))
        else:
            self._change(supervised, spawned(supervised.watch, now))

    def _change(self, supervised: Supervised, watch: Watch) -> None:
        before, supervised.watch = supervised.watch, watch
        if watch.phase is not before.phase:
            self._notify(supervised)


FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 15.0
# A component that ran this long was well: its next death starts the backoff over.
STABLE_AFTER_S: Final = 30.0


class Phase(StrEnum):
    """Where a component is."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "restarting"


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one component. Times are seconds of one monotonic clock.

    Attributes:
        phase: Where it is.
        since: When it got there.
        restarts: How often it was started again.
        streak: Deaths without a stable run in between; the backoff grows with it.
        restart_at: When it is due, in ``WAITING`` alone.
        problem: How it died last, for a person; empty before that.
        ever_ready: It was ready at least once.
    """

    phase: Phase = Phase.STOPPED
    since: float = 0.0
    restarts: int = 0
    streak: int = 0
    restart_at: float | None = None
    problem: str = ""
    ever_ready: bool = False


def spawned(watch: Watch, now: float) -> Watch:
    """Its process was started."""
    again = watch.phase is Phase.WAITING
    return replace(watch, phase=Phase.STARTING, since=now, restart_at=None, restarts=watch.restarts + again)


def became_ready(watch: Watch, now: float) -> Watch:
    """It answers that it is ready. Nothing changes unless it was starting."""
    if watch.phase is not Phase.STARTING:
        return watch
    return replace(watch, phase=Phase.RUNNING, since=now, ever_ready=True)


def died(watch: Watch, now: float, problem: str) -> Watch:
    """Its process ended though nobody asked, or could not be started."""
    stable = watch.phase is Phase.RUNNING and now - watch.since >= STABLE_AFTER_S
    streak = 1 if stable else watch.streak + 1
    return replace(
        watch,
        phase=Phase.WAITING,
        since=now,
        streak=streak,
        restart_at=now + backoff_s(streak),
        problem=problem,
    )


def stopped(watch: Watch, now: float) -> Watch:
    """It was ended on purpose."""
    return replace(watch, phase=Phase.STOPPED, since=now, restart_at=None)


def due(watch: Watch, now: float) -> bool:
    """Whether it is to be started now."""
    return watch.phase is Phase.WAITING and watch.restart_at is not None and now >= watch.restart_at


def backoff_s(streak: int) -> float:
    """Seconds to wait after the ``streak``-th death in a row: 0.5, 1, 2, 4, 8, then 15."""
    return min(FIRST_BACKOFF_S * 2.0 ** max(min(streak, 30) - 1, 0), MAX_BACKOFF_S)


_PROBE_TIMEOUT_S: Final = 2.0
_OK: Final = 200


class Component(Protocol):
    """Something with a process. Methods but ``is_ready`` return at once; they are called in the main thread."""

    @property
    def name(self) -> str:
        """Short and unique."""

    @property
    def address(self) -> str:
        """Where it listens; empty where it does not."""

    @property
    def log_file(self) -> Path:
        """What it writes."""

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""

    def spawn(self) -> None:
        """Start its process.

        Raises:
            SwitchgearError: It could not be started.
        """

    def ended(self) -> str | None:
        """How its process ended, for a person; None while it runs."""

    async def is_ready(self) -> bool:
        """Whether it serves now. Never raises."""

    def tend(self) -> None:
        """Housekeeping, every few seconds: its log stays bounded."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it now."""


class CommandComponent:
    """``python -m switchgear_cli COMMAND``, ready when ``ready_url`` answers 200, or at once where that is None."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        *,
        log_file: Path,
        environment: Mapping[str, str],
        ready_url: str | None = None,
        address: str = "",
    ) -> None:
        self.name = name
        self.address = address
        self.log_file = log_file
        self._arguments = arguments
        self._environment = dict(environment)
        self._ready_url = ready_url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def spawn(self) -> None:
        """Start it, die_with_parent to this process, its output appended to the log file."""
        try:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            with self.log_file.open("ab") as output:
                self._process = subprocess.Popen(
                    die_with_parent([sys.executable, "-m", "switchgear_cli", *self._arguments]),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    start_new_session=True,  # Ctrl-C in the terminal is for us: we end it in order
                )
        except OSError as error:
            raise SwitchgearError(f"The {self.name} cannot be started: {error.strerror or error}.") from error

    def ended(self) -> str | None:
        """``code 1: <its last line>`` or ``SIGKILL``; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:  # its last line says nothing of a signal from outside
            return signal.Signals(-code).name
        line = last_line(self.log_file)
        return f"code {code}: {line}" if line else f"code {code}"

    async def is_ready(self) -> bool:
        """Whether its ready URL answers 200."""
        if self._ready_url is None:
            return self.pid is not None
        try:
            async with httpx.AsyncClient(timeout=_PROBE_TIMEOUT_S, trust_env=False) as client:
                return (await client.get(self._ready_url)).status_code == _OK
        except httpx.HTTPError:
            return False

    def tend(self) -> None:
        """Rotate the log file that the child writes to."""
        rotate(self.log_file)

    def terminate(self) -> None:
        """SIGTERM, to it alone: it ends its own children."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL, to it and what it started."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class KafkaComponent:
    """The broker; its jars and data folder were prepared before."""

    name = "kafka"

    def __init__(self, kafka: LocalKafka) -> None:
        self._kafka = kafka
        self.address = kafka.bootstrap
        self.log_file = kafka.log_file

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._kafka.pid

    def spawn(self) -> None:
        """Start it."""
        self._kafka.spawn()

    def ended(self) -> str | None:
        """Why it ended; None while it runs."""
        reason = self._kafka.failure()
        return None if reason is None else str(reason)

    async def is_ready(self) -> bool:
        """Whether it knows itself as a broker."""
        return self.pid is not None and await asyncio.to_thread(brokers_online, HOST, self._kafka.port) > 0

    def tend(self) -> None:
        """Nothing: the broker rotates its own log."""

    def terminate(self) -> None:
        """SIGTERM: it flushes and closes its logs."""
        self._kafka.terminate()

    def kill(self) -> None:
        """SIGKILL; the next start recovers its logs."""
        self._kafka.kill()
