"""Fixtures of the embedded engine, for the conftest of every folder of tests that reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchgear_sinks.store import Store
from tests.support.engine import emptied, migrated_store


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One engine a module: the process can have one at a time."""
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as store:
        yield store


@pytest.fixture
def store(engine: Store) -> Store:
    """The engine with empty tables."""
    return emptied(engine)
