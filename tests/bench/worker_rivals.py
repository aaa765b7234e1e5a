"""The stream processors that the worker is measured beside, each as a child process that prints ``count N`` as it goes."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from switchgear_cli.local.jars import KAFKA_VERSION
from switchgear_schemas.settings import Settings
from tests.frameworks.environments import Environment, python_of
from tests.support.processes import Child, environment, python

STOCK: Final = """
import asyncio, sys, faust, msgspec, time
servers, topic, partitions, with_table, prefix = sys.argv[1:6]
from switchgear_schemas.wire import decode_execution
app = faust.App(prefix + "stock" + with_table, datadir=sys.argv[6], broker="kafka://" + servers, value_serializer="raw", key_serializer="raw",
    store="memory://", web_enabled=False, topic_partitions=int(partitions), broker_max_poll_records=5000,
    stream_wait_empty=False, consumer_auto_offset_reset="earliest", topic_disable_leader=True)
source = app.topic(topic, key_type=bytes, value_type=bytes)
table = app.Table("counts", key_type=bytes, value_type=bytes, partitions=int(partitions)) if with_table == "1" else None
count = 0
@app.agent(source)
async def fold(stream):
    global count
    async for value in stream:
        event = decode_execution(value)
        if table is not None:
            key = event.tool_name.encode()
            table[key] = str(int(table.get(key) or b"0") + 1).encode()
        count += 1
async def main():
    await app.maybe_start()
    while True:
        print("count", count, flush=True)
        await asyncio.sleep(0.1)
asyncio.get_event_loop().run_until_complete(main())
"""
QUIX: Final = """
import sys, threading, time
from quixstreams import Application
servers, topic, group, folder = sys.argv[1:5]
app = Application(broker_address=servers, consumer_group=group, auto_offset_reset="earliest", state_dir=folder, loglevel="WARNING")
count = 0
def seen(event):
    global count
    count += 1
def say():
    while True:
        print("count", count, flush=True)
        time.sleep(0.1)
threading.Thread(target=say, daemon=True).start()
executions = app.dataframe(app.topic(topic, key_deserializer="str", value_deserializer="json"))
executions.update(seen).tumbling_window(60_000).count().final()
app.run()
"""
QUIX_VERSION: Final = "3.28.1"
COORDINATES: Final = (
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}"
    f"+org.apache.kafka:kafka-clients:{KAFKA_VERSION}"
    "+org.slf4j:slf4j-nop:1.7.36"
)
SOURCE: Final = Path(__file__).parent / "kafka_streams" / "Counts.java"
GET_JAVA: Final = "No javac: install a JDK, such as `apt-get install -y default-jdk-headless`."


@dataclass(frozen=True)
class Rival:
    """A stream processor.

    Attributes:
        title: For the table.
        share: It reads this part of the events, so that a slow one takes as long as the others.
        start: Starts it on a topic, in a folder of its own.
        missing: What it lacks here. Empty if it can run.
    """

    title: str
    share: float
    start: Callable[[Settings, Path], Child]
    missing: str = ""


def rivals() -> list[Rival]:
    """Return all of them."""
    return [
        Rival("stock Faust agent, decode only", 1 / 8, lambda settings, folder: _stock("0", settings, folder)),
        Rival("stock Faust agent, table write", 1 / 16, lambda settings, folder: _stock("1", settings, folder)),
        Rival(f"Quix Streams {QUIX_VERSION}, windowed count", 1 / 8, _quix),
        Rival(
            f"Kafka Streams {KAFKA_VERSION}, windowed count",
            1.0,
            _kafka_streams,
            "" if shutil.which("javac") else GET_JAVA,
        ),
    ]


def count_of(child: Child) -> int:
    """Return the last count that a rival printed."""
    lines = [line for line in child.output()[-200:].splitlines() if line.startswith("count ")]
    return int(lines[-1].split()[1]) if lines and lines[-1].split()[1:] else 0


def _stock(with_table: str, settings: Settings, folder: Path) -> Child:
    arguments = [settings.topics.executions, str(settings.topic_partitions), with_table, settings.topic_prefix]
    return python(STOCK, settings.kafka_bootstrap_servers, *arguments, str(folder / "data"), log=folder / "out.log")


def _quix(settings: Settings, folder: Path) -> Child:
    interpreter = str(python_of(Environment("quixstreams", QUIX_VERSION, (), bare=True)))
    arguments = [settings.kafka_bootstrap_servers, settings.topics.executions, f"{settings.topic_prefix}quix"]
    return Child([interpreter, "-c", QUIX, *arguments, str(folder / "data")], folder / "out.log", environment())


def _kafka_streams(settings: Settings, folder: Path) -> Child:
    java = shutil.which("java")
    assert java is not None, GET_JAVA
    path = ":".join(map(str, [*_jars(), _classes()]))
    arguments = [settings.kafka_bootstrap_servers, settings.topics.executions, f"{settings.topic_prefix}streams"]
    return Child([java, "-cp", path, SOURCE.stem, *arguments, str(folder / "data")], folder / "out.log", environment())


def _jars() -> list[Path]:
    """Fetch Kafka Streams by its Maven coordinates, once in an environment."""
    import jgo  # noqa: PLC0415 - only here

    logging.getLogger("jgo").setLevel(logging.ERROR)
    built = jgo.build(COORDINATES, cache_dir=Path(sys.prefix) / "kafka-streams")
    return sorted(Path(built.path).rglob("*.jar"))


def _classes() -> Path:
    """Compile the topology."""
    folder = Path(sys.prefix) / "kafka-streams" / "classes"
    classes = folder / f"{SOURCE.stem}.class"
    if not classes.exists() or classes.stat().st_mtime < SOURCE.stat().st_mtime:
        path = ":".join(map(str, _jars()))
        subprocess.run(["javac", "-cp", path, "-d", str(folder), str(SOURCE)], check=True)
    return folder
