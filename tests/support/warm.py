"""Commands in processes forked from one that has imported the packages already: most of a short command's time is its imports.

``spawn(arguments, …)`` runs ``switchgear ARGUMENTS``, and ``spawn(["-c", script, …])`` a script, each in a process of its own that ends like any
other. Use a real interpreter where its start or its end is the subject: imports, ``PYTHON…`` variables, the order of ``atexit``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.support import costs
from tests.support.limits import ANSWER_S

_ROOT: Final = Path(__file__).parents[2]
_IMPORTED: Final = (
    "aiokafka.admin",
    "cyclopts",
    "rich.console",
    "rich.live",
    "rich.table",
    "switchgear_alerts.service",
    "switchgear_cli.commands.alerts",
    "switchgear_cli.commands.api",
    "switchgear_cli.commands.dead",
    "switchgear_cli.commands.demo",
    "switchgear_cli.commands.doctor",
    "switchgear_cli.commands.emit",
    "switchgear_cli.commands.gateway",
    "switchgear_cli.commands.migrate",
    "switchgear_cli.commands.operate",
    "switchgear_cli.commands.policy",
    "switchgear_cli.commands.reads",
    "switchgear_cli.commands.replay",
    "switchgear_cli.commands.retention",
    "switchgear_cli.commands.sink",
    "switchgear_cli.commands.token",
    "switchgear_cli.commands.topics",
    "switchgear_cli.commands.up",
    "switchgear_cli.commands.watch",
    "switchgear_cli.commands.worker",
    "switchgear_cli.emit.run",
    "switchgear_cli.hook.run",
    "switchgear_cli.main",
    "switchgear_cli.operate.run",
    "switchgear_gateway.service",
    "switchgear_sinks.migrations",
    "switchgear_api.service",
    "switchgear_sinks.store",
    "switchgear_stream.worker",
)
_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>
_FOLLOWED: Final = ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER")
"""Variables of interpreters that a forked process follows, too."""
REQUEST_BYTES: Final = 1 << 20


class Forked:
    """A running command, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, arguments: Sequence[str], told: socket.socket) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        self._told = told
        self._read = told.makefile("r")
        pid = self._read.readline()
        assert pid, "the process that forks commands has ended"
        self.pid = int(pid)

    def poll(self) -> int | None:
        """Return the exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._told, selectors.EVENT_READ)
                if not waiting.select(timeout):
                    return None
            code, spent = self._read.readline().split()  # no answer: the server is gone, and all its children with it
            costs.add(float(spent))
            self.returncode = int(code)
            self._read.close()
            self._told.close()
        return self.returncode


class Server:
    """The process that has imported ``imported``, started at first use and ended with this one."""

    def __init__(self, imported: Sequence[str]) -> None:
        self._imported = imported
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path | None, files: Sequence[int]
    ) -> Forked:
        ours, theirs = socket.socketpair()
        with theirs:
            request = {
                "arguments": list(arguments),
                "environment": dict(environment),
                "folder": str(folder or Path.cwd()),
            }
            self.pass_on(json.dumps(request).encode(), [theirs.fileno(), *files])
        return Forked(arguments, ours)

    def pass_on(self, request: bytes, files: Sequence[int]) -> None:
        """Let it fork. ``files``: a socket, which is told the process's number and then how it ended, and standard streams."""
        assert len(request) < REQUEST_BYTES
        with self._lock:
            if self._control is None or self._owner != os.getpid():
                self._start()
            assert self._control is not None
            socket.send_fds(self._control, [request], files)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHGEAR_")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(theirs.fileno()), *self._imported],
                cwd=_ROOT,
                env=kept,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._control, self._owner = ours, os.getpid()
        atexit.register(self._stop)

    def _stop(self) -> None:
        if self._control is not None and self._owner == os.getpid():
            self._control.close()
            self._control = None
            assert self._process is not None
            self._process.wait(ANSWER_S)


_server: Final = Server(_IMPORTED)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a forked process would be like one with this environment: its interpreter has started already."""
    own = {name for name, value in environment.items() if os.environ.get(name) != value}
    return sys.platform == "linux" and not any(
        name.startswith(("PYTHON", "LC_", "LANG")) and name not in _FOLLOWED for name in own
    )


def spawn(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    folder: Path | None = None,
) -> Forked:
    """Start ``switchgear ARGUMENTS`` or ``-c SCRIPT ARGUMENTS`` with these open files, and return without waiting."""
    return _server.fork(arguments, environment, folder, (stdin, stdout, stderr))


def _main(control: socket.socket, imported: Sequence[str]) -> None:
    for name in imported:
        importlib.import_module(name)
    tasks = len(list(Path("/proc/self/task").iterdir()))
    assert tasks == 1, f"an import started {tasks - 1} threads, so a fork would be unsafe"
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the commands themselves
    request = _serve(control)
    if request is not None:
        _end(_run, request)


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return the request in the forked process; None in this one, when its client is gone."""
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            waiting.select()
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(running)
            if control not in {key.fileobj for key, _ in waiting.select(0)}:  # a child may have ended just now
                continue
            data, files, _, _ = socket.recv_fds(control, REQUEST_BYTES, 4)
            if not data:
                break
            told = socket.socket(fileno=files[0])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for each in (control, woken, wakes, told, *running.values()):
                    each.close()
                for number, file in enumerate(files[1:]):
                    os.dup2(file, number)
                    os.close(file)
                return dict(json.loads(data))
            for file in files[1:]:
                os.close(file)
            running[pid] = told
            _tell(told, str(pid))
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as told:
            _tell(told, f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime}")


def _tell(told: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):  # the test no longer asks
        told.sendall(f"{line}\n".encode())


def _run(request: Mapping[str, Any]) -> None:
    """Become the command, as far as a process can that another has started."""
    server = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    random.seed()
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = (_output(number, unbuffered=unbuffered or number == 2) for number in (1, 2))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    arguments = request["arguments"]
    if arguments[:1] == ["-c"]:
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(arguments[1], "<string>", "exec"), vars(main))
        return
    from switchgear_cli.main import main as command  # noqa: PLC0415 - imported before

    sys.argv = ["switchgear", *arguments]
    command()


def _end(run: Callable[[Mapping[str, Any]], None], request: Mapping[str, Any]) -> NoReturn:
    """Run to the end as an interpreter does, without taking the modules apart: that takes longer than most commands."""
    code: object = None
    try:
        run(request)
    except SystemExit as asked:
        code = asked.code
    except BaseException:  # noqa: BLE001 - the interpreter prints it
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit((code or 0) & 0xFF)


def _output(number: int, *, unbuffered: bool) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors="backslashreplace" if number == 2 else "strict",
        line_buffering=raw.isatty() or number == 2,
        write_through=unbuffered,
    )


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
