"""Fixtures of the embedded engine, for the conftest of each folder of tests that uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchgear_sinks.store import Store
from tests.support.engine import emptied, migrated_store


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return one engine per module. The process can have one at a time."""
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as store:
        yield store


@pytest.fixture
def store(engine: Store) -> Store:
    """Return the engine with empty tables."""
    return emptied(engine)
