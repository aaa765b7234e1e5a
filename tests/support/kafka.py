"""The Kafka of integration tests: a local broker, or a container on request."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchgear_cli.local.jars import KAFKA_VERSION
from switchgear_cli.local.kafka import LocalKafka, brokers_online, server_properties
from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings, load_settings
from tests.support.java_cache import make_java_cache

BACKEND_VARIABLE = "SWITCHGEAR_TEST_BACKEND"


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
