"""The parent's side of one reader's process: start it, ask it, monitor its resources, end it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import structlog

from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError

log = structlog.get_logger()

START_S: Final = 60.0
"""Time for the start of a process, which takes half a second on an idle machine."""
NICE: Final = 10
_CHECK_EVERY_S: Final = 0.02
_HEAD_BYTES: Final = 200
_CHUNK_BYTES: Final = 1 << 20
_ENGINE_DEFAULTS: Final = Path(__file__).with_name("reader.xml")
_END_S: Final = 10.0
_SOONER: Final = "Narrow the time range, or raise SWITCHGEAR_SQL_MAX_SECONDS."
_LESS: Final = "Aggregate, add a LIMIT, or select fewer columns."


class ReaderLimitError(SwitchgearError):
    """The query exceeded a limit, so its process was ended."""


class ReaderEndedError(SwitchgearError):
    """The process ended by itself, because the query made the engine crash."""


class SnapshotError(StoreUnavailableError):
    """A file of the process's snapshot can't be read, for example because its table was truncated. Another snapshot helps."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """The limits of a reader's process."""

    memory_bytes: int = 1_500_000_000
    """Resident memory, of which the engine itself takes 0.3 GB."""
    answer_bytes: int = 80 * 1024 * 1024
    written_bytes: int = 1_200_000_000
    """Bytes written to files and to the answer together."""


class ReaderProcess:
    """A process that serves one reader and is then ended. Its methods block. :meth:`end` may be called in any thread."""

    def __init__(self, folder: Path, scratch: Path, limits: ReaderLimits, *, walled: bool, background: bool) -> None:
        """Start the process without waiting for it.

        Args:
            folder: The engine's folder, whose rows may be read.
            scratch: A new folder for this process only. It is removed at the end.
            limits: Limits of the process.
            walled: Use Landlock and seccomp.
            background: Let every other process go first, because no reader waits for this one.

        Raises:
            OSError: The process can't be started, or the folder can't be created.
        """
        self.engine = scratch / "engine"
        self.connection = f"{self.engine}?{urlencode({'config-file': _ENGINE_DEFAULTS})}"
        self._scratch = scratch
        self._limits = limits
        self._received = bytearray()
        self._ending = threading.Lock()
        self._ended = False
        temporary = scratch / "tmp"
        for each in (self.engine, temporary):
            each.mkdir(parents=True)
        given = {
            "read": [str(folder / "store"), str(_ENGINE_DEFAULTS)],  # the first is the target of the snapshot's links
            "scratch": str(scratch),
            "walled": walled,
            "data_bytes": 2 * limits.memory_bytes,
            "file_bytes": limits.written_bytes,
        }
        try:
            self._process = self._started(given, temporary)
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        for pipe in (self._requests, self._answers):
            os.set_blocking(pipe.fileno(), False)
        if background:
            self.step_back()

    @staticmethod
    def _started(given: dict[str, Any], temporary: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-m", "switchgear_api.sandbox.reader", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=temporary,
            env={
                "TMPDIR": str(temporary),
                "HOME": str(temporary),
                "LANG": "C.UTF-8",
            },  # none of this process's variables: they hold secrets
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def step_back(self) -> None:
        """Lower the priority of the process. Threads that start later inherit it."""
        tasks = Path(f"/proc/{self.pid}/task")
        with contextlib.suppress(OSError):  # the process or a thread has ended
            for task in [path.name for path in tasks.iterdir()] if tasks.is_dir() else [self.pid]:
                os.setpriority(os.PRIO_PROCESS, int(task), NICE)

    def started(self, deadline: float) -> None:
        """Wait until the engine is loaded.

        Raises:
            StoreUnavailableError: The engine can't be loaded.
            ReaderLimitError, ReaderEndedError: As for :meth:`ask`.
        """
        ok, text = self._answer(deadline)
        if not ok:
            raise StoreUnavailableError(
                f"The process for SQL could not start: {text.decode(errors='replace')[:300]}.",
                hint="The log of the service has more. Everything else continues.",
            )

    def ask(self, request: dict[str, Any], deadline: float) -> tuple[bool, bytes]:
        """Send a request, and return whether it succeeded and the bytes of the answer or of the error's text.

        After an exception the process can't be used again.

        Args:
            request: As JSON.
            deadline: A time of ``time.monotonic()``.

        Raises:
            ReaderLimitError: The process was not done at the deadline, or exceeds a limit.
            ReaderEndedError: The process ended.
        """
        pending = memoryview(json.dumps(request).encode() + b"\n")
        while pending:
            self._wait(self._requests.fileno(), select.POLLOUT, deadline)
            try:
                pending = pending[os.write(self._requests.fileno(), pending) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._gone() from None
        return self._answer(deadline)

    def end(self) -> None:
        """Kill the process and remove its scratch folder. May be called again."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            self._process.kill()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                log.warning("a process for SQL does not end", pid=self.pid)
            shutil.rmtree(self._scratch, ignore_errors=True)

    def close(self) -> None:
        """End the process and close the pipes. Only the thread that asks may call it."""
        self.end()
        shutil.rmtree(self._scratch, ignore_errors=True)  # another thread's end() may have come before this one's links
        self._requests.close()
        self._answers.close()

    def _answer(self, deadline: float) -> tuple[bool, bytes]:
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > _HEAD_BYTES:
                raise self._gone()
            self._receive(deadline)
        try:
            head = json.loads(self._received[:end])
            ok, size = head["ok"] is True, int(head["size"])
        except (ValueError, TypeError, LookupError):  # the answer does not come from reader.py
            raise self._gone() from None
        if not 0 <= size <= self._limits.answer_bytes:
            raise ReaderLimitError(
                f"The answer has {size} bytes; at most {self._limits.answer_bytes} are allowed.", hint=_LESS
            )
        del self._received[: end + 1]
        while len(self._received) < size:
            self._receive(deadline)
        with memoryview(self._received) as received:
            body = bytes(received[:size])
        del self._received[:size]
        return ok, body

    def _receive(self, deadline: float) -> None:
        self._wait(self._answers.fileno(), select.POLLIN, deadline)
        try:
            received = os.read(self._answers.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not received:
            raise self._gone()
        self._received += received

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready, and check the limits meanwhile."""
        waiting = select.poll()
        waiting.register(descriptor, event)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ReaderLimitError("The query was not done in time, so its process was ended.", hint=_SOONER)
            if waiting.poll(1000 * min(left, _CHECK_EVERY_S)):
                return
            self._check_limits()

    def _check_limits(self) -> None:
        memory, written = _resident(self.pid), _written(self.pid)
        if memory > self._limits.memory_bytes:
            raise ReaderLimitError(
                f"The query needs more than {self._limits.memory_bytes} bytes of memory.", hint=_LESS
            )
        if written > self._limits.written_bytes:
            raise ReaderLimitError(f"The query writes more than {self._limits.written_bytes} bytes.", hint=_LESS)

    def _gone(self) -> SwitchgearError:
        if self._ended:
            return StoreUnavailableError("The service is closing.", hint="Try again when it runs.")
        self.end()
        return ReaderEndedError(
            f"The query made its engine crash (exit code {self._process.returncode}).", hint="Simplify it."
        )


def _resident(pid: int) -> int:
    """Return the resident bytes; 0 if the system does not provide them."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, LookupError):
        return 0


def _written(pid: int) -> int:
    """Return the bytes written since its start; 0 if the system does not provide them."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("wchar:")), 0)
    except (OSError, LookupError):
        return 0
