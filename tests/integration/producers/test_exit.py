"""The end of the interpreter while Kafka hangs: connections stay open and nothing answers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings, load_settings
from tests.support.kafka import own_kafka
from tests.support.limits import READY_S
from tests.support.processes import python
from tests.support.spooling import left_in

CLIENTS = 8

ENDING = """
import atexit, sys, time
ended = 0.0
atexit.register(lambda: print("took", time.monotonic() - ended, flush=True))  # the first is the last to be called
from pathlib import Path
from switchgear import Emitter, Event
bootstrap, prefix, folder, go, clients = sys.argv[1:]
emitters = [
    Emitter(bootstrap, topic_prefix=prefix, spool_dir=f"{folder}/{number}" if folder else None, exit_timeout=2)
    for number in range(int(clients))
]
for emitter in emitters:
    assert emitter.connect(40)
    emitter.emit(Event("t", "success", metadata={"number": 0}))
    assert emitter.flush(40)
print("ready", flush=True)
while not Path(go).exists():
    time.sleep(0.01)
for emitter in emitters:
    emitter.emit(Event("t", "success", metadata={"number": 1}))
ended = time.monotonic()
"""


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[tuple[LocalKafka, Settings]]:
    """Start a broker for one test. It is resumed before it is stopped."""
    port = any_free_port()
    settings = load_settings(
        kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="exit.", topic_partitions=4
    )  # fmt: skip
    broker = own_kafka(tmp_path / "kafka", port)
    broker.start()
    try:
        asyncio.run(ensure_topics(settings))
        yield broker, settings
    finally:
        if broker.pid is not None:
            os.kill(broker.pid, signal.SIGCONT)
        broker.stop()


@pytest.mark.deep
@pytest.mark.parametrize("spool", [True, False], ids=["with a spool", "in memory"])
def test_all_clients_together_take_about_as_long_as_the_exit_timeout(
    frozen: tuple[LocalKafka, Settings], tmp_path: Path, *, spool: bool
) -> None:
    """Closing takes no longer with more clients. A spool keeps the last events."""
    broker, settings = frozen
    folder, go = tmp_path / "spool", tmp_path / "go"
    arguments = (
        settings.kafka_bootstrap_servers, settings.topic_prefix, str(folder) if spool else "", str(go), str(CLIENTS)
    )  # fmt: skip
    with python(ENDING, *arguments, log=tmp_path / "child.log", forked=False) as child:
        child.wait_for_output("ready")
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        go.touch()
        assert child.wait_for_exit(READY_S) == 0, child.output()
    took = float(child.output().partition("took ")[2].split()[0])
    assert took < CLIENTS - 1, child.output()
    assert "Traceback" not in child.output()
    assert "Fatal" not in child.output()
    if spool:
        for number in range(CLIENTS):
            assert left_in(folder / str(number)) == [1]
