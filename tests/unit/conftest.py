"""The marker of the tests that start ClickHouse's embedded engine."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with the fixture ``store``. Modules that start an engine in another way have a ``pytestmark``."""
    for item in items:
        if isinstance(item, pytest.Function) and "store" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
