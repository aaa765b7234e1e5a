"""A cache of Kafka's loaded classes (JEP 514). With it a broker needs half of the processor time to start.

The first test process that starts a broker makes it. The others begin without it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from switchgear_cli.local.jars import KAFKA_VERSION, java_binary
from switchgear_cli.local.kafka import JVM_OPTIONS_VARIABLE, LocalKafka
from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.file_lock import FileLock
from tests.support.limits import READY_S

_QUIET: Final = "-Xlog:aot*=off"  # without the file, Java starts as usual and says so


def use_java_cache() -> None:
    """Let the brokers of this process and of those that it starts use the cache, if it is there."""
    os.environ.setdefault(JVM_OPTIONS_VARIABLE, f"-XX:AOTCache={_file()} {_QUIET}")


def make_java_cache() -> None:
    """Make the cache, unless it is there or another process is making it: run a broker that records its classes."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file.with_suffix(".lock"))
    if file.exists() or not lock.acquire(0):
        return
    before = os.environ.get(JVM_OPTIONS_VARIABLE, "")
    made = file.with_suffix(".new")
    try:
        with tempfile.TemporaryDirectory(prefix="switchgear-test-") as folder:
            broker = LocalKafka(Path(folder), any_free_port())
            broker.prepare()
            os.environ[JVM_OPTIONS_VARIABLE] = f"-XX:AOTCacheOutput={made}"
            broker.spawn()
            broker.wait_ready()
            broker.stop(READY_S)
        if made.exists():
            made.rename(file)
    except SwitchgearError:
        return  # the tests do without it, and those that need a broker say what is wrong
    finally:
        os.environ[JVM_OPTIONS_VARIABLE] = before
        lock.release()


def _file() -> Path:
    """Return the cache's file. Java refuses one that another Java or other jars made, so they are in its name."""
    java = java_binary()
    made_by = hashlib.sha256(f"{java}{java.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    return user_cache_path("switchgear") / "tests" / f"kafka-{KAFKA_VERSION}-{made_by}.aot"
