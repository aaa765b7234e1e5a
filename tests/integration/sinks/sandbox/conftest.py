"""A canary outside of the store, a listener that nobody may reach, and readers' processes without the check of their text."""

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchgear_sinks.sandbox import ReaderClient, ReaderEndedError, ReaderLimitError, Readers

SECRET = "the-secret-itself"
SECONDS = 2.0


class Stranger:
    """Who sends SQL that nothing has looked at."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._client: ReaderClient | None = None

    def ask(self, *statements: str) -> bytes:
        """The answers, errors among them, and what a reader sees of a process that was ended."""
        said = b""
        for statement in statements:
            if self._client is None:
                self._client = self._readers.connect()
            self._client._deadline = time.monotonic() + SECONDS
            try:
                said += self._client.raw_query(statement)
            except (ReaderLimitError, ReaderEndedError) as error:
                said += str(error).encode()
                self.leave()
            except Exception as error:  # noqa: BLE001 - whatever the engine says
                said += str(error).encode()
        return said

    @property
    def client(self) -> ReaderClient:
        if self._client is None:
            self._client = self._readers.connect()
        return self._client

    def leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


@dataclass
class World:
    """What the placeholders of an attempt stand for."""

    folder: Path
    listener: socket.socket
    store: Path

    @property
    def names(self) -> dict[str, str]:
        address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        return {
            "folder": str(self.folder),
            "secret": str(self.folder / "secret.txt"),
            "url": f"http://{address}/x",
            "address": address,
            "store": str(self.store),
        }

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def was_reached(self) -> bool:
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture(scope="module")
def world(tmp_path_factory, engine):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.txt").write_text(f"{SECRET}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield World(folder, listener, engine.folder)


@pytest.fixture(scope="module")
def readers(engine):
    owner = Readers(engine.folder, engine.database, max_seconds=SECONDS)
    yield owner
    owner.close()


@pytest.fixture(scope="module")
def stranger(readers):
    one = Stranger(readers)
    yield one
    one.leave()
