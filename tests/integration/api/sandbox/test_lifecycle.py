"""A reader's process lives as long as its reader, and never longer than the process that started it."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from switchgear_api.sandbox.process import ReaderEndedError, ReaderLimitError
from switchgear_api.sandbox.readers import SCRATCH, Readers
from switchgear_schemas.errors import StoreUnavailableError
from tests.support.engine import call, store_calls
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.waiting import until

ENDLESS = "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))"
SERVICE = """
import asyncio, sys, threading
from pathlib import Path
from switchgear_api.sandbox.readers import Readers
from tests.support.engine import migrated_store

folder = Path(sys.argv[1])
with migrated_store(folder) as store:
    readers = Readers(folder, store.database, max_seconds=600)
    client = readers.connect()
    threading.Thread(target=client.raw_query, args=(sys.argv[2],), daemon=True).start()
    print("asked", client.pid, flush=True)
    threading.Event().wait()
"""


@pytest.fixture
def make(engine):
    made = []

    def build(**given) -> Readers:
        made.append(Readers(engine.folder, engine.database, **({"max_seconds": 30} | given)))
        return made[-1]

    yield build
    for each in made:
        each.close()


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def scratch(folder: Path) -> list[str]:
    return [path.name for path in (folder / SCRATCH).glob("*")]


@pytest.mark.deep
def test_query_sees_every_row_that_was_stored_before_it(make, store):
    readers = make()
    for count in range(1, 5):  # the first starts a process, the others take the spare one
        asyncio.run(store_calls(store, [call("t")]))
        client = readers.connect()
        assert client.raw_query("SELECT count() FROM tool_metrics") == f"{count}\n".encode()
        client.close()
        until(lambda: readers._spare is not None, seconds=HAPPEN_S)


def test_each_client_has_a_process_of_its_own_that_ends_with_it(make):
    readers = make()
    one, other = readers.connect(), readers.connect()
    assert one.pid != other.pid
    one.command("CREATE TABLE mine (a UInt8) ENGINE = Memory")
    assert b"mine" not in other.raw_query("SHOW TABLES")
    one.close()
    other.close()
    assert not runs(one.pid)
    assert not runs(other.pid)


@pytest.mark.deep
def test_a_killed_service_leaves_no_process_and_the_next_one_removes_its_scratch_folder(tmp_path):
    command = [sys.executable, "-c", SERVICE, str(tmp_path), ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4]) as service:
        said = ""
        while not said.startswith("asked"):
            said = service.stdout.readline()
        reader = int(said.split()[1])
        until(lambda: psutil.Process(reader).cpu_times().user > 1, state=lambda: "the query runs")
        service.send_signal(signal.SIGKILL)
        service.wait(HAPPEN_S)
    until(lambda: not runs(reader))
    assert scratch(tmp_path)
    Readers(tmp_path, "switchgear", max_seconds=1).close()
    assert scratch(tmp_path) == []


def test_closing_ends_the_processes_of_queries_that_run(make, engine):
    readers = make()
    client, raised = readers.connect(), []

    def ask() -> None:
        try:
            client.raw_query(ENDLESS)
        except StoreUnavailableError as error:
            raised.append(error)
        client.close()

    began = psutil.Process(client.pid).cpu_times().user
    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: psutil.Process(client.pid).cpu_times().user > began + 0.2, state=lambda: "the query runs")
    readers.close()
    asking.join(ANSWER_S)
    assert "closing" in str(raised[0])
    assert not runs(client.pid)
    with pytest.raises(StoreUnavailableError):
        readers.connect()


def test_a_process_that_was_killed_is_an_error_of_its_query_alone(make):
    readers = make()
    client = readers.connect()
    psutil.Process(client.pid).kill()
    with pytest.raises(ReaderEndedError, match="exit code -9"):
        client.raw_query("SELECT 1")
    client.close()
    again = readers.connect()
    assert again.raw_query("SELECT 1") == b"1\n"
    again.close()


@pytest.mark.deep
def test_a_spare_process_that_was_killed_is_replaced(make):
    readers = make()
    readers.connect().close()
    until(lambda: readers._spare is not None, seconds=HAPPEN_S)
    psutil.Process(readers._spare.pid).kill()
    client = readers.connect()
    assert client.raw_query("SELECT 1") == b"1\n"
    client.close()


def test_spare_process_ends_when_no_query_arrives(make, engine):
    readers = make(idle_s=0.1)
    readers.connect().close()
    until(lambda: readers._preparing is None and not scratch(engine.folder), seconds=HAPPEN_S)


def test_closing_while_a_process_opens_the_tables_leaves_no_folder(make, engine, monkeypatch):
    from switchgear_api.sandbox import readers as module  # noqa: PLC0415

    readers, real = make(), module.link_snapshot

    def link(folder, snapshot):
        closing = threading.Thread(target=readers.close)
        closing.start()
        closing.join(ANSWER_S)
        assert not snapshot.exists()
        real(folder, snapshot)

    monkeypatch.setattr(module, "link_snapshot", link)
    with pytest.raises(StoreUnavailableError, match="closing"):
        readers.connect()
    assert scratch(engine.folder) == []


@pytest.mark.deep
def test_part_dropped_between_snapshot_and_opening_leads_to_another_snapshot(make, store, monkeypatch):
    """The engine does not open a table with a link that leads nowhere."""
    asyncio.run(store_calls(store, [call("t")]))
    from switchgear_api.sandbox import readers as module  # noqa: PLC0415

    real, made = module.link_snapshot, []

    def link(folder, snapshot):
        real(folder, snapshot)
        if not made:
            part = next(snapshot.glob("store/*/*/*_*_*_*/columns.txt")).parent
            part.unlink()
            part.symlink_to(folder / "gone")
        made.append(snapshot)

    monkeypatch.setattr(module, "link_snapshot", link)
    client = make().connect()
    assert client.raw_query("SELECT count() FROM tool_metrics") == b"1\n"
    client.close()
    assert len(made) == 2


def test_a_query_that_is_not_done_in_time_ends_with_its_process(make):
    client = make(max_seconds=0.5).connect()
    started = time.monotonic()
    with pytest.raises(ReaderLimitError, match="in time"):
        client.raw_query(ENDLESS)
    assert time.monotonic() - started < 5
    client.close()
    assert not runs(client.pid)
