"""What a supervisor starts, watches and ends: a child process of ours, or the Kafka broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import httpx

from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.kafka_config import HOST
from switchgear_cli.local.kafka_probe import brokers_online
from switchgear_cli.local.tether import tethered
from switchgear_cli.up.log_file import last_line, rotate
from switchgear_schemas.errors import SwitchgearError

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
        """Start it, tethered to this process, its output appended to the log file."""
        try:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            with self.log_file.open("ab") as output:
                self._process = subprocess.Popen(
                    tethered([sys.executable, "-m", "switchgear_cli", *self._arguments]),
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
