"""Kafka's own command-line programs, in Java, without any of our code."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from switchgear_cli.local.jars import JVM_FLAGS, KAFKA_VERSION, class_path, java_binary, kafka_jars
from tests.support.limits import READY_S

TOOLS_SHA256: Final = "cb7aedcd2e418b86079c4b35257c8e37800eea84723c78c8b90f535bd589888e"
"""The hash of kafka-tools. The broker does not need it, so it isn't among the jars whose hashes the package has."""
LIMIT_S: Final = READY_S
SEPARATOR: Final = "\t"


@cache
def tools_jar() -> Path:
    """Return the jar with the console clients, fetched by its Maven coordinates into the user's Maven repository."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - comes with the extra that brings the broker

    jar = Path(MavenContext().project("org.apache.kafka", "kafka-tools").at_version(KAFKA_VERSION).artifact().resolve())
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert found == TOOLS_SHA256, f"{jar} has the SHA-256 {found}"
    return jar


def produce(bootstrap: str, topic: str, lines: Iterable[str], *, keyed: bool) -> None:
    """Send lines with Java's console producer and its defaults. With ``keyed``, a line is key, tab, value, else keys are null."""
    keys = [
        "--property", f"parse.key={str(keyed).lower()}",
        "--property", f"key.separator={SEPARATOR}",
    ]  # fmt: skip
    _run(
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        *keys,
        text="\n".join(lines) + "\n",
    )


def consume(bootstrap: str, topic: str, *, count: int) -> list[tuple[str, str]]:
    """Return the keys and values of the first ``count`` records of a topic, read with Java's console consumer."""
    out = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
        "--max-messages", str(count), "--timeout-ms", "20000",
        "--property", "print.key=true", "--property", f"key.separator={SEPARATOR}",
    )  # fmt: skip
    return [(key, value) for key, _, value in (line.partition(SEPARATOR) for line in out.splitlines())]


def permit(*arguments: str) -> None:
    """Run ``kafka-acls.sh ARGUMENTS``."""
    _run("org.apache.kafka.tools.AclCommand", *arguments)


def add_scram_user(bootstrap: str, name: str, password: str) -> None:
    """Make a user that logs in with SCRAM-SHA-512."""
    _run(
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter", "--entity-type", "users",
        "--entity-name", name, "--add-config", f"SCRAM-SHA-512=[password={password}]",
    )  # fmt: skip


def _run(main_class: str, *arguments: str, text: str = "") -> str:
    jars = [*kafka_jars(), tools_jar()]
    command = [
        str(java_binary()),
        *JVM_FLAGS,
        "-Dfile.encoding=UTF-8",
        "-Dstdin.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        class_path(jars),
        main_class,
        *arguments,
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
