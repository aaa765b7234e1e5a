"""A real Apache Kafka broker on this machine, as a child process."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import socket
import struct
import subprocess
import time
import uuid
from importlib import resources
from pathlib import Path
from typing import Final, Self

from switchgear_cli.local.broker_probe import brokers_online
from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_cli.local.jars import JVM_FLAGS, class_path, java_binary, kafka_jars
from switchgear_cli.local.ports import HOST, any_free_port, hold_port, hold_reserved, is_free, port_of
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.file_lock import FileLock

JVM_OPTIONS_VARIABLE: Final = "KAFKA_JVM_PERFORMANCE_OPTS"
"""More options for Java, as for Kafka's own scripts."""
_FORMAT_TIMEOUT_S: Final = 60.0
_MINIMUM_FREE_BYTES: Final = 256 * 1024 * 1024
_LOCK_TIMEOUT_S: Final = 5.0  # a broker that was killed a moment ago may still hold the lock
_POLL_S: Final = 0.02
_CONTROLLER_PORT: Final = 19093
"""Below the ports that the kernel gives to clients: none of them can take it between a stop and the next start."""


class LocalKafka:
    """One broker that is its own controller (KRaft). Its data stay in the folder for the next start.

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
        self._log_start = 0  # where the present start begins in the log
        self._controller: socket.socket | None = None  # reserves the controller's port until the broker is stopped

    @property
    def bootstrap(self) -> str:
        """The clients' address, ``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs and before it was started."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Prepare, start, and wait until the broker serves. Call it in the main thread.

        Raises:
            SwitchgearError: With the way out: no Java, jars not fetched or refused, port in use, disk full, data in use.
            BrokerUnavailableError: It did not serve within the limit.
        """
        self.prepare()
        self.spawn()
        self.wait_ready()

    def prepare(self) -> None:
        """Download the jars, and format the data folder if it is new. Blocks; any thread may call it."""
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
        """Start the process after :meth:`prepare`.

        Call it in the main thread: the broker ends with the thread that started it.

        Raises:
            SwitchgearError: The port is in use, or another broker uses the data.
        """
        if self.pid is not None:
            raise RuntimeError("This broker runs already.")
        if not is_free(self.port):
            raise SwitchgearError(f"Port {self.port} is in use.", hint="Choose another by --kafka-port.")
        # The broker inherits this lock and holds it while it runs. Kafka's own lock comes too late: the second broker has
        # written to the cluster's metadata by then, and the first one ends with CorruptRecordException.
        lock = FileLock(self.data_dir / "kafka.lock")
        if not lock.acquire(_LOCK_TIMEOUT_S):
            raise SwitchgearError(
                f"Another Kafka uses the data in {self.data_dir}.",
                hint="Stop it, or choose another folder by --data-dir.",
            )
        try:
            properties = self.data_dir / "server.properties"
            properties.write_text(server_properties(self._log_dir, self.port, self._controller_port()), "ascii")
            self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
            with self._output.open("wb") as output:
                self._process = subprocess.Popen(
                    die_with_parent(self._java("kafka.Kafka", str(properties))),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal goes to this process, which ends the broker last
                    pass_fds=(lock.fileno(),),
                )
        finally:
            lock.release()

    def wait_ready(self) -> None:
        """Block until the broker serves. Any thread may call it."""
        deadline = time.monotonic() + self._start_timeout_s
        while not self.is_online():
            if (reason := self.failure()) is not None:
                raise reason
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerUnavailableError(
                    f"Kafka did not serve within {self._start_timeout_s:.0f} s.", hint=f"Its log: {self.log_file}."
                )
            time.sleep(_POLL_S)

    def is_online(self) -> bool:
        """Return whether it runs and serves: not another Kafka at its port. Any thread may call it."""
        return self.pid is not None and brokers_online(HOST, self.port, cluster_id=self._cluster_id()) > 0

    def failure(self) -> SwitchgearError | None:
        """Return why it ended, with what to do, in one sentence; None while it runs."""
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
        """End it.

        SIGTERM, then SIGKILL after ``timeout_s`` seconds. Does nothing if it doesn't run. Any thread may call it.
        """
        self.terminate()
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._release()

    def terminate(self) -> None:
        """Send SIGTERM without waiting."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, as a crash would, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._release()

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

    def _controller_port(self) -> int:
        if self._controller is None:
            self._controller = hold_port(
                None, _CONTROLLER_PORT, flag="--kafka-port", hold=hold_reserved, taken={self.port}
            )
        return port_of(self._controller)

    def _release(self) -> None:
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def _cluster_id(self) -> str | None:
        """Return the id that the cluster got when its folder was formatted."""
        try:
            lines = (self._log_dir / "meta.properties").read_text().splitlines()
        except OSError:
            return None
        return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), None)

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        with resources.as_file(resources.files("switchgear_cli.local") / "kafka_log4j2.properties") as log4j2:
            return [
                str(java_binary()),
                *JVM_FLAGS,
                *shlex.split(os.environ.get(JVM_OPTIONS_VARIABLE, "")),
                f"-Dlog4j2.configurationFile={log4j2.as_uri()}",
                f"-Dswitchgear.kafka.log={self.log_file}",
                "-cp",
                class_path(self._jars),
                main_class,
                *arguments,
            ]

    def _format(self) -> None:
        """Write the cluster's first metadata. The folder is renamed when complete, so a crash leaves no half of it."""
        staging = self.data_dir / "log.formatting"
        shutil.rmtree(staging, ignore_errors=True)
        properties = self.data_dir / "server.properties"
        properties.write_text(server_properties(staging, self.port, any_free_port()), "ascii")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):  # a leading hyphen would read as an option
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


NODE_ID: Final = 1
# Larger than max.message.bytes of each topic: a follower or consumer must be able to fetch a whole batch.
_MESSAGE_MAX_BYTES: Final = 16 * 1024 * 1024


def server_properties(log_dir: Path, port: int, controller_port: int) -> str:
    """Return the broker's configuration as Java properties.

    Args:
        log_dir: Kafka's ``log.dirs``: the messages and the cluster's metadata.
        port: For clients, on 127.0.0.1.
        controller_port: For the connection of the broker to itself.
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": _escaped(log_dir),
        "message.max.bytes": _MESSAGE_MAX_BYTES,
        "replica.fetch.max.bytes": _MESSAGE_MAX_BYTES,
        # A mistyped topic name must fail. Otherwise Kafka makes a topic with the wrong settings.
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # No other consumer is about to join. The default wait of 3 s only delays a restart.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "controlled.shutdown.max.retries": 1,
        # The controller writes two empty records a second, so that other brokers know that it lives. There is only one broker.
        "metadata.max.idle.interval.ms": 10_000,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _escaped(path: Path) -> str:
    """Return a path as a Java properties value, where a backslash escapes and a comma separates folders."""
    text = str(path.absolute())
    if "," in text:
        raise ValueError(f"Kafka cannot keep its data in a folder with a comma in its name: {text}")
    encoded = text.replace("\\", "\\\\").encode("utf-16-be")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


_TAIL_BYTES: Final = 32_768


def explain(
    code: int, *, port: int, data_dir: Path, output: Path, log_file: Path, log_start: int = 0
) -> SwitchgearError:
    """Return the error for a broker that ended with ``code`` unexpectedly.

    Args:
        code: Its exit code.
        port: The port it was to listen on.
        data_dir: Its data folder.
        output: What Java printed.
        log_file: The broker's own log.
        log_start: Where in it this run of the broker begins; what is before is of earlier ones.
    """
    text = _tail(output) + _tail(log_file, log_start)
    if "No space left on device" in text:
        return SwitchgearError(
            f"Kafka ended: the disk of {data_dir} is full.", hint="Make room, or choose another folder by --data-dir."
        )
    if "Address already in use" in text or "Socket server failed to bind" in text:
        return SwitchgearError(f"Port {port} is in use.", hint="Choose another by --kafka-port.")
    last = next((line for line in reversed(text.splitlines()) if "Exception" in line or "Error" in line), "")
    said = f": {last.strip()[:300]}" if last else "."
    return SwitchgearError(f"Kafka ended with code {code}{said}", hint=f"Its log: {log_file}.")


def _tail(file: Path, start: int = 0) -> str:
    if not file.is_file():
        return ""
    size = file.stat().st_size
    if start > size:  # the log was rotated since
        start = 0
    with file.open("rb") as stream:
        stream.seek(max(size - _TAIL_BYTES, start))
        return stream.read().decode("utf-8", "replace")
