"""The Kafka of integration tests: one local broker for all processes of a run, or a container on request.

``python -m tests.support.kafka FOLDER PID`` is that broker's keeper. The first test process that needs a broker starts it. It ends with the
process PID, the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from switchgear_cli.local.jars import KAFKA_VERSION
from switchgear_cli.local.kafka import LocalKafka, brokers_online, server_properties
from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings, load_settings
from tests.support.java_cache import make_java_cache, use_java_cache
from tests.support.limits import READY_S, STOP_S

BACKEND_VARIABLE = "SWITCHGEAR_TEST_BACKEND"
_FOLDER_VARIABLE: Final = "SWITCHGEAR_TEST_RUN_FOLDER"
_RUN_VARIABLE: Final = "SWITCHGEAR_TEST_RUN_PID"
_KEEPER: Final = "kafka.pid"
_ADDRESS: Final = "kafka.address"
_started: Final[list[subprocess.Popen[bytes]]] = []


@dataclass(frozen=True)
class RunningKafka:
    """A broker for a whole test run. Tests share it, each under its own topic prefix."""

    bootstrap: str

    def settings(self, **overrides: Any) -> Settings:
        """Return settings for this broker, with their own topic prefix and 4 partitions."""
        given: dict[str, Any] = {
            "kafka_bootstrap_servers": self.bootstrap,
            "topic_prefix": unique_prefix(),
            "topic_partitions": 4,
            "worker_http": "127.0.0.1:0",
            "api_http": f"127.0.0.1:{any_free_port()}",
        }
        return load_settings(**(given | overrides))


def unique_prefix() -> str:
    """Return a topic prefix that no other test has."""
    return f"t{uuid.uuid4().hex[:8]}."


def begin_run() -> None:
    """Name the run's folder and process for all its test processes. Call it in the process that starts them."""
    os.environ[_FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="switchgear-test-")
    os.environ[_RUN_VARIABLE] = str(os.getpid())


def end_run() -> None:
    """Stop the run's broker, if there is one, and remove the run's folder."""
    folder = Path(os.environ[_FOLDER_VARIABLE])
    keeper = folder / _KEEPER
    if keeper.exists():
        _stop(int(keeper.read_text()))
    shutil.rmtree(folder, ignore_errors=True)


def _stop(pid: int) -> None:
    """End a process that another test process may have started."""
    deadline = time.monotonic() + STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):  # not ours
                os.waitpid(pid, os.WNOHANG)
            os.kill(pid, 0)
            time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shared_kafka() -> RunningKafka:
    """Return the run's broker. Start it if no other test process has."""
    folder = Path(os.environ[_FOLDER_VARIABLE])
    log = folder / "keeper.log"
    with once_a_run(_ADDRESS) as answer:
        if not answer.exists():
            with log.open("wb") as output:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.kafka", str(folder), os.environ[_RUN_VARIABLE]],
                    cwd=Path(__file__).parents[2],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            (folder / _KEEPER).write_text(str(keeper.pid))
            _started.append(keeper)  # an object that is collected warns of its process
            deadline = time.monotonic() + 2 * READY_S  # the first run of a machine fetches Kafka
            while not answer.exists():
                assert keeper.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
    return RunningKafka(answer.read_text())


def in_a_run() -> bool:
    """Return whether this process belongs to a run of pytest, whose processes share a folder."""
    return _FOLDER_VARIABLE in os.environ


@contextmanager
def once_a_run(name: str) -> Iterator[Path]:
    """Yield a path in the run's folder that all test processes share, while no other process may make it."""
    path = Path(os.environ[_FOLDER_VARIABLE]) / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def copy_of_the_runs(name: str, make: Callable[[Path], object], folder: Path) -> None:
    """Copy to ``folder`` what ``make`` writes into a folder. It is made once a run."""
    with once_a_run(name) as made:
        if not made.exists():
            new = made.with_suffix(".new")
            make(new)
            new.rename(made)
    shutil.copytree(made, folder, dirs_exist_ok=True, symlinks=True)


def own_kafka(folder: Path, port: int) -> LocalKafka:
    """Return a broker of a test's own with its data in ``folder``. The test starts it."""
    copy_formatted(folder)
    return LocalKafka(folder, port)


def copy_formatted(folder: Path) -> None:
    """Give a new broker the data of an empty one: to make them takes a Java process."""
    if in_a_run() and not (folder / "log").exists():
        copy_of_the_runs("kafka-formatted", lambda new: LocalKafka(new, any_free_port()).prepare(), folder)


def _keep(folder: Path, run: int) -> None:
    """Run a broker until SIGTERM, or until the run has ended."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    with running_kafka() as kafka:
        address = folder / f"{_ADDRESS}.new"
        address.write_text(kafka.bootstrap)
        address.rename(folder / _ADDRESS)
        while not asked.wait(1) and _lives(run):
            pass


@contextmanager
def running_kafka() -> Iterator[RunningKafka]:
    """Start a broker from the wheels, or from the image with ``SWITCHGEAR_TEST_BACKEND=docker``."""
    backend = os.environ.get(BACKEND_VARIABLE, "local")
    if backend == "docker":
        with _container() as bootstrap:
            yield RunningKafka(bootstrap)
    elif backend == "local":
        make_java_cache()
        with (
            tempfile.TemporaryDirectory(prefix="switchgear-test-") as folder,
            LocalKafka(Path(folder), any_free_port()) as kafka,
        ):
            yield RunningKafka(kafka.bootstrap)
    else:
        raise ValueError(f"{BACKEND_VARIABLE} must be local or docker, got {backend!r}.")


@contextmanager
def _container() -> Iterator[str]:
    """Start the official image with the local broker's configuration. The port is the same inside and outside."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - needs Docker

    port = any_free_port()
    lines = server_properties(Path("/var/lib/kafka/data"), port, 9093).splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    properties["listeners"] = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:9093"
    container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_bind_ports(port, port)
    for key, value in properties.items():
        container.with_env(f"KAFKA_{key.upper().replace('.', '_')}", value)
    with container:
        host = container.get_container_host_ip()
        deadline = time.monotonic() + 120
        while brokers_online(host, port) == 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"The container did not serve:\n{container.get_logs()[0].decode()[-2000:]}")
            time.sleep(0.2)
        yield f"{host}:{port}"


if __name__ == "__main__":
    use_java_cache()
    _keep(Path(sys.argv[1]), int(sys.argv[2]))
