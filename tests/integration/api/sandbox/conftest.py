"""Readers' processes, and a reader who sends them SQL that nothing has looked at."""

import time

import pytest

from switchgear_api.sandbox.process import ReaderEndedError, ReaderLimitError
from switchgear_api.sandbox.readers import ReaderClient, Readers
from tests.support.canary import World, listening

SECONDS = 2.0


class UncheckedReader:
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


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with listening() as listener:
        yield World.in_folder(tmp_path_factory.mktemp("outside"), listener)


@pytest.fixture(scope="module")
def readers(engine):
    owner = Readers(engine.folder, engine.database, max_seconds=SECONDS)
    yield owner
    owner.close()


@pytest.fixture(scope="module")
def reader(readers):
    one = UncheckedReader(readers)
    yield one
    one.leave()
