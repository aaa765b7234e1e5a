"""A real Apache Kafka broker on this machine, as a child process."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
import uuid
from importlib import resources
from pathlib import Path
from typing import Final, Self

from switchgear_cli.local.jars import class_path, kafka_jars
from switchgear_cli.local.java import JVM_FLAGS, java_binary
from switchgear_cli.local.kafka_config import HOST, server_properties
from switchgear_cli.local.kafka_failure import explain
from switchgear_cli.local.kafka_probe import brokers_online
from switchgear_cli.local.ports import any_free_port, is_free
from switchgear_cli.local.tether import tethered
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError

_FORMAT_TIMEOUT_S: Final = 60.0
_MINIMUM_FREE_BYTES: Final = 256 * 1024 * 1024
_POLL_S: Final = 0.02


class LocalKafka:
    """One broker that is its own controller (KRaft). Its data outlive it: the next start on the folder has them.

    ``with LocalKafka(folder, port) as kafka:`` starts and stops it. It dies with the process that started it.

    Attributes:
        data_dir: Its folder: ``log/`` (messages), ``server.properties``, ``kafka.out`` (what Java printed).
        port: The clients' port on 127.0.0.1.
        log_file: The broker's own log, at most 4 files of 10 MB.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int,
        *,
        log_file: Path | None = None,
        cache_dir: Path | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.log_file = (log_file or data_dir / "kafka.log").absolute()
        self._cache_dir = cache_dir
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._jars: list[Path] = []
        self._log_start = 0  # where in the log the present start begins

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Prepare, spawn, and wait until it serves. Main thread only.

        Raises:
            SwitchgearError: With the way out: no Java, jars not fetched or refused, port in use, disk full, data in use.
            BrokerUnavailableError: It did not serve within the limit.
        """
        self.prepare()
        self.spawn()
        self.wait_ready()

    def prepare(self) -> None:
        """Fetch the jars and format the data folder where that was not done before. Blocks; any thread."""
        java_binary()
        self._jars = kafka_jars(self._cache_dir)
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.data_dir).free
            if free < _MINIMUM_FREE_BYTES:
                raise SwitchgearError(
                    f"The disk of {self.data_dir} is full ({free // 1024**2} MB left; Kafka needs"
                    f" {_MINIMUM_FREE_BYTES // 1024**2} MB to start).",
                    hint="Make room, or choose another folder by --data-dir.",
                )
            if not self._log_dir.is_dir():
                self._format()
        except OSError as error:
            raise SwitchgearError(
                f"Kafka's data cannot be kept in {self.data_dir}: {error.strerror or error}.",
                hint="Choose another folder by --data-dir.",
            ) from error

    def spawn(self) -> None:
        """Start the process; ``prepare`` was called before. Main thread only (it dies with the thread)."""
        if self.pid is not None:
            raise RuntimeError("This broker runs already.")
        if not is_free(self.port):
            raise SwitchgearError(f"Port {self.port} is in use.", hint="Choose another by --kafka-port.")
        properties = self.data_dir / "server.properties"
        properties.write_text(server_properties(self._log_dir, self.port, any_free_port()), "ascii")
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                tethered(self._java("kafka.Kafka", str(properties))),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for us: we stop it, last
            )

    def wait_ready(self) -> None:
        """Block until the broker serves. Any thread."""
        deadline = time.monotonic() + self._start_timeout_s
        while brokers_online(HOST, self.port) == 0:
            if (reason := self.failure()) is not None:
                raise reason
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerUnavailableError(
                    f"Kafka did not serve within {self._start_timeout_s:.0f} s.", hint=f"Its log: {self.log_file}."
                )
            time.sleep(_POLL_S)

    def failure(self) -> SwitchgearError | None:
        """Why it ended, in one sentence with the way out; None while it runs."""
        if self.exit_code is None:
            return None
        return explain(
            self.exit_code,
            port=self.port,
            data_dir=self.data_dir,
            output=self._output,
            log_file=self.log_file,
            log_start=self._log_start,
        )

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it: SIGTERM, and SIGKILL after ``timeout_s`` seconds. Harmless where it does not run. Any thread."""
        self.terminate()
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def terminate(self) -> None:
        """SIGTERM, without waiting for what it does."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """``kill -9``, as a crash would; it has ended when this returns."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _log_dir(self) -> Path:
        return self.data_dir / "log"

    @property
    def _output(self) -> Path:
        return self.data_dir / "kafka.out"

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        with resources.as_file(resources.files("switchgear_cli.local") / "kafka_log4j2.properties") as log4j2:
            return [
                str(java_binary()),
                *JVM_FLAGS,
                f"-Dlog4j2.configurationFile={log4j2.as_uri()}",
                f"-Dswitchgear.kafka.log={self.log_file}",
                "-cp",
                class_path(self._jars),
                main_class,
                *arguments,
            ]

    def _format(self) -> None:
        """Write the cluster's first metadata, in a folder that is renamed when whole: a crash leaves no half."""
        staging = self.data_dir / "log.formatting"
        shutil.rmtree(staging, ignore_errors=True)
        properties = self.data_dir / "server.properties"
        properties.write_text(server_properties(staging, self.port, any_free_port()), "ascii")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):  # would read as an option
            cluster = f"A{cluster[1:]}"
        command = self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        with self._output.open("wb") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
            )
        if done.returncode != 0:
            raise explain(
                done.returncode,
                port=self.port,
                data_dir=self.data_dir,
                output=self._output,
                log_file=self.log_file,
                log_start=self._log_start,
            )
        staging.rename(self._log_dir)
