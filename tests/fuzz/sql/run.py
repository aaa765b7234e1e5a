"""A run: statements by a seed against the sandboxed engine, with files and ports that no statement may touch."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.sql.opened import FileMonitor
from tests.fuzz.sql.statements import Statements, Vocabulary
from tests.support.canary import SECRET, World, listening

ANSWER_S: Final = 15.0
"""Limit of a statement. After it the process is ended. The cost of statements is not tested here."""
START_S: Final = 120.0
READABLE: Final = (
    SECRET,
    SECRET.upper(),
    SECRET[::-1],
    SECRET.encode().hex(),
    SECRET.encode().hex().upper(),
    base64.b64encode(SECRET.encode())[:-4].decode(),
)
"""The secret, and the forms in which an answer may show it."""


@dataclass
class Report:
    """The result of a run."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    """The number of statements that were answered, refused, failed, limited, ended (no answer), or crashed the engine. ``bug`` is an error of the product."""
    findings: list[str] = field(default_factory=list)
    """What was touched, with the statement before it."""
    crashes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        return f"seed {self.seed}: {self.outcomes.total():,} statements: {counts}; findings: {len(self.findings)}"


class Engine:
    """The child process. It is started again after a crash or a limit."""

    def __init__(self, folder: Path, world: World, walls: str) -> None:
        self._command = [sys.executable, "-m", "tests.fuzz.sql.engine", str(folder), walls]
        self._world = world
        self._buffer = b""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        """Start the process, and return what its engine has."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._world.folder,
            start_new_session=True,
            env={"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
        self._buffer = b""
        found = self._answer(START_S)
        if found is None:
            raise RuntimeError("the fuzzer's engine does not start")
        return found

    def ask(self, statement: str) -> tuple[str, str]:
        """Return the outcome and the text of a statement."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(statement).encode() + b"\n")
            process.stdin.flush()
            answer = self._answer(ANSWER_S)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return answer["outcome"], answer["text"]
        crashed = process.poll() is not None
        self.end()
        self.start()
        return ("crashed" if crashed else "ended"), ""

    def end(self) -> None:
        """Kill the process, and the one in which it answers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """Return a line of the output; None if there is none."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                found = self._process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
                if not found:
                    self._process.wait(seconds)
                    return None
                self._buffer += found
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def fuzz(seed: int, seconds: float, walls: str, *, at_most: int | None = None, said: bool = False) -> Report:
    """Run for ``seconds``, or until a finding.

    Args:
        seed: Decides the statements, for one version of the engine.
        seconds: How long; the start of the engine is not counted.
        walls: The one that stands: ``first``, ``second`` or ``none``.
        at_most: Statements.
        said: Print each minute.
    """
    report = Report(seed)
    with tempfile.TemporaryDirectory(prefix="switchgear-fuzz-") as base, listening() as listener:
        outside = Path(base, "outside")
        outside.mkdir()
        world = World.in_folder(outside, listener)
        engine = Engine(Path(base, "engine"), world, walls)
        try:
            names = engine.start()
            vocabulary = Vocabulary(**{kind: tuple(sorted(found)) for kind, found in names.items()})
            with FileMonitor(outside / "secret.txt") as monitor:
                _run(report, engine, world, monitor, Statements(vocabulary, seed), seconds, at_most, said=said)
        finally:
            engine.end()
    return report


def _run(
    report: Report,
    engine: Engine,
    world: World,
    monitor: FileMonitor,
    statements: Statements,
    seconds: float,
    at_most: int | None,
    *,
    said: bool,
) -> None:
    started = minute = time.monotonic()
    for statement in statements:
        now = time.monotonic()
        if now - started > seconds or report.findings or report.outcomes.total() == at_most:
            return
        if said and now - minute > 60:
            minute = now
            print(report, flush=True)
        filled = world.filled(statement)
        outcome, text = engine.ask(filled)
        report.outcomes[outcome] += 1
        if outcome == "crashed":
            report.crashes.append(filled)
        touched = world.traces()
        if monitor.opened():
            touched.append("the secret's file was opened")
        if any(shown in text for shown in READABLE):
            touched.append(f"the secret was shown: {text[:300]}")
        if outcome == "bug":
            touched.append(text)
        if touched:
            report.findings.append(f"{filled}\n    {'; '.join(touched)}")
