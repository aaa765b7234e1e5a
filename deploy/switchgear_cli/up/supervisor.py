"""Start components in order, supervise them, restart them and stop them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import httpx

from switchgear.runtime.backoff import backoff_s
from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_cli.local.kafka import LocalKafka
from switchgear_http.sockets import PID_HEADER, SOCKET_VARIABLE, url_of
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.files import trusted_at

MAX_BYTES: Final = 10 * 1024 * 1024
_TAIL_BYTES: Final = 16_384


def rotate(file: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Copy a file that has grown past ``max_bytes`` to ``<file>.1`` and empty it. The two files bound the space.

    The child keeps writing to the same open file. It appends, so it goes on at the new end. Lines that it writes between the copy
    and the truncation are lost, which is acceptable for a log.

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
    except OSError:  # on a full disk, emptying the log matters more
        aside.unlink(missing_ok=True)
    with file.open("r+b") as stream:
        stream.truncate(0)
    return True


def last_line(file: Path) -> str:
    """Return the last line that isn't empty, cut to 400 characters; ``""`` if there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(file.stat().st_size - _TAIL_BYTES, 0))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return next((line.strip()[:400] for line in reversed(text.splitlines()) if line.strip()), "")


_STEP_S: Final = 0.1
_TEND_EVERY_S: Final = 5.0
# A component that dies this often before it was ever ready won't recover by itself.
START_ATTEMPTS: Final = 3


@dataclass(slots=True)
class Supervised:
    """A component, the state of its supervision, and the readiness probe in progress."""

    component: Component
    supervision: Supervision
    probe: asyncio.Task[bool] | None = None


class Supervisor:
    """Owns the child processes. Call everything but ``is_ready`` in the main thread.

    Args:
        clock: Monotonic seconds.
        notify: Called after every change of phase.
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
        """Start a component and supervise it from now on."""
        supervised = Supervised(component, Supervision())
        self.all.append(supervised)
        self._spawn(supervised)

    async def step(self) -> None:
        """Check each component once, and do what is due."""
        now = self._clock()
        for supervised in self.all:
            supervision, component = supervised.supervision, supervised.component
            if supervision.phase in {Phase.STARTING, Phase.RUNNING}:
                how = component.ended()
                if how is not None:
                    self._change(supervised, died(supervision, now, how))
                elif supervision.phase is Phase.STARTING and await self._is_ready(supervised):
                    self._change(supervised, became_ready(supervision, self._clock()))
            elif due(supervision, now):
                self._spawn(supervised)
        if now - self._tended_at >= _TEND_EVERY_S:
            self._tended_at = now
            for supervised in self.all:
                supervised.component.tend()

    async def run(self) -> None:
        """Call :meth:`step` until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(_STEP_S)

    async def wait_ready(self, names: Sequence[str], timeout_s: float) -> None:
        """Wait until these components have been ready once. ``run`` must be running in another task.

        Raises:
            SwitchgearError: One died ``START_ATTEMPTS`` times before it was ready, or the time is over; it says which,
                what it said last, and where its log is.
        """
        deadline = self._clock() + timeout_s
        waiting = [supervised for supervised in self.all if supervised.component.name in names]
        while not all(supervised.supervision.ever_ready for supervised in waiting):
            for supervised in waiting:
                supervision, component = supervised.supervision, supervised.component
                if not supervision.ever_ready and supervision.streak >= START_ATTEMPTS:
                    raise SwitchgearError(
                        f"The {component.name} ended {supervision.streak} times before it was ready ({supervision.problem}).",
                        hint=f"Its log: {component.log_file}.",
                    )
                if not supervision.ever_ready and self._clock() >= deadline:
                    raise SwitchgearError(
                        f"The {component.name} was not ready within {timeout_s:.0f} s.",
                        hint=f"Its log: {component.log_file}.",
                    )
            await asyncio.sleep(_STEP_S / 2)

    async def stop(self, names: Sequence[str], timeout_s: float, hurry: asyncio.Event) -> None:
        """End these components: SIGTERM, then SIGKILL after ``timeout_s`` seconds, or at once on ``hurry``.

        They are not restarted.
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
            self._change(supervised, stopped(supervised.supervision, self._clock()))

    async def _is_ready(self, supervised: Supervised) -> bool:
        """Return whether it has answered that it is ready.

        A question may outlast a step: a child that has yet to look at its socket lets it wait. The other components don't wait for it.
        """
        probe = supervised.probe or asyncio.create_task(supervised.component.is_ready())
        await asyncio.wait({probe}, timeout=_STEP_S / 5)
        supervised.probe = None if probe.done() else probe
        return probe.done() and probe.result()

    def _spawn(self, supervised: Supervised) -> None:
        now = self._clock()
        if supervised.probe is not None:  # its answer would be that of the process before
            supervised.probe.cancel()
            supervised.probe = None
        try:
            supervised.component.spawn()
        except SwitchgearError as error:
            self._change(supervised, died(spawned(supervised.supervision, now), now, str(error)))
        else:
            self._change(supervised, spawned(supervised.supervision, now))

    def _change(self, supervised: Supervised, supervision: Supervision) -> None:
        before, supervised.supervision = supervised.supervision, supervision
        if supervision.phase is not before.phase:
            self._notify(supervised)


FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 15.0
# After a component ran this long, its next death starts the backoff from the beginning.
STABLE_AFTER_S: Final = 30.0


class Phase(StrEnum):
    """The phase of a component."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "restarting"


@dataclass(frozen=True, slots=True)
class Supervision:
    """The state of one component. Times are seconds of one monotonic clock.

    Attributes:
        phase: Where it is.
        since: When it got there.
        restarts: How often it was started again.
        streak: Deaths without a stable run in between; the backoff grows with it.
        restart_at: When it is due, in ``WAITING`` alone.
        problem: How it died last, for a person; empty before that.
        ever_ready: It was ready at least once.
        down_since: When it died, until it is ready again.
    """

    phase: Phase = Phase.STOPPED
    since: float = 0.0
    restarts: int = 0
    streak: int = 0
    restart_at: float | None = None
    problem: str = ""
    ever_ready: bool = False
    down_since: float | None = None


def spawned(supervision: Supervision, now: float) -> Supervision:
    """Return the supervision after its process was started."""
    again = supervision.phase is Phase.WAITING
    return replace(supervision, phase=Phase.STARTING, since=now, restart_at=None, restarts=supervision.restarts + again)


def became_ready(supervision: Supervision, now: float) -> Supervision:
    """Return the supervision after it answered that it is ready. Changes only a component that is starting."""
    if supervision.phase is not Phase.STARTING:
        return supervision
    return replace(supervision, phase=Phase.RUNNING, since=now, ever_ready=True, down_since=None)


def died(supervision: Supervision, now: float, problem: str) -> Supervision:
    """Return the supervision after its process ended unexpectedly, or could not be started."""
    stable = supervision.phase is Phase.RUNNING and now - supervision.since >= STABLE_AFTER_S
    streak = 1 if stable else supervision.streak + 1
    return replace(
        supervision,
        phase=Phase.WAITING,
        since=now,
        streak=streak,
        restart_at=now + backoff_s(streak, FIRST_BACKOFF_S, MAX_BACKOFF_S),
        problem=problem,
        down_since=now if supervision.down_since is None else supervision.down_since,
    )


def stopped(supervision: Supervision, now: float) -> Supervision:
    """Return the supervision after it was ended on purpose."""
    return replace(supervision, phase=Phase.STOPPED, since=now, restart_at=None, down_since=None)


def due(supervision: Supervision, now: float) -> bool:
    """Return whether it is time to start it."""
    return supervision.phase is Phase.WAITING and supervision.restart_at is not None and now >= supervision.restart_at


_PROBE_TIMEOUT_S: Final = 2.0
_OK: Final = 200


class Component(Protocol):
    """Something with a process. All methods return at once. Call them in the main thread, except ``is_ready``."""

    @property
    def name(self) -> str:
        """A short, unique name."""

    @property
    def address(self) -> str:
        """Its address, or empty if it doesn't listen."""

    @property
    def log_file(self) -> Path:
        """Its log file."""

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""

    def spawn(self) -> None:
        """Start its process.

        Raises:
            SwitchgearError: It could not be started.
        """

    def ended(self) -> str | None:
        """Return how its process ended, as text; None while it runs."""

    async def is_ready(self) -> bool:
        """Return whether it serves now. Never raises."""

    def tend(self) -> None:
        """Keep its log bounded. The supervisor calls this every few seconds."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


class CommandComponent:
    """``python -m switchgear_cli COMMAND``.

    Args:
        name: A short, unique name.
        arguments: The command.
        log_file: Gets its output.
        environment: Its environment.
        listening: The socket that it serves on. It is ready when it answers there itself. Without one it is ready at once.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        *,
        log_file: Path,
        environment: Mapping[str, str],
        listening: socket.socket | None = None,
    ) -> None:
        self.name = name
        self.address = "" if listening is None else url_of(listening)
        self.log_file = log_file
        self._arguments = arguments
        self._environment = dict(environment)
        self._inherited = () if listening is None else (listening.fileno(),)
        if listening is not None:
            host, port = listening.getsockname()
            self._environment[SOCKET_VARIABLE] = f"{host}:{port}={listening.fileno()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def spawn(self) -> None:
        """Start it so that it ends with this process, with its output appended to the log file."""
        try:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            with self.log_file.open("ab") as output:
                self._process = subprocess.Popen(
                    die_with_parent([sys.executable, "-m", "switchgear_cli", *self._arguments]),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    pass_fds=self._inherited,
                    start_new_session=True,  # Ctrl-C in the terminal goes to this process, which ends the components in order
                )
        except OSError as error:
            raise SwitchgearError(f"The {self.name} cannot be started: {error.strerror or error}.") from error

    def ended(self) -> str | None:
        """Return ``code 1: <its last line>`` or ``SIGKILL``; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:  # its last line doesn't explain a signal from outside
            return signal.Signals(-code).name
        line = last_line(self.log_file)
        return f"code {code}: {line}" if line else f"code {code}"

    async def is_ready(self) -> bool:
        """Return whether this process answers at its address that it is ready: not another one, whatever it says."""
        if not self.address:
            return self.pid is not None
        try:
            async with httpx.AsyncClient(
                timeout=_PROBE_TIMEOUT_S, trust_env=False, verify=trusted_at(self.address, None)
            ) as client:
                answer = await client.get(f"{self.address}/readyz")
        except httpx.HTTPError:
            return False
        return answer.status_code == _OK and answer.headers.get(PID_HEADER) == str(self.pid)

    def tend(self) -> None:
        """Rotate its log file."""
        rotate(self.log_file)

    def terminate(self) -> None:
        """Send SIGTERM to it alone. It ends its own children."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to it and its children."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class KafkaComponent:
    """The broker. Its jars and data folder are prepared before."""

    name = "kafka"

    def __init__(self, kafka: LocalKafka) -> None:
        self._kafka = kafka
        self.address = kafka.bootstrap
        self.log_file = kafka.log_file

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._kafka.pid

    def spawn(self) -> None:
        """Start it."""
        self._kafka.spawn()

    def ended(self) -> str | None:
        """Return why it ended; None while it runs."""
        reason = self._kafka.failure()
        return None if reason is None else str(reason)

    async def is_ready(self) -> bool:
        """Return whether the broker reports itself as usable."""
        return await asyncio.to_thread(self._kafka.is_online)

    def tend(self) -> None:
        """Do nothing: the broker rotates its own log."""

    def terminate(self) -> None:
        """Send SIGTERM. The broker flushes and closes its logs."""
        self._kafka.terminate()

    def kill(self) -> None:
        """Send SIGKILL. The next start recovers the logs."""
        self._kafka.kill()
