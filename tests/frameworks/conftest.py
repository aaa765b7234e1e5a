"""The tests of an adapter run in the environment of its framework: see environments.py. Here only those run
that start it, and the table of exceptions for what the extra ``dev`` brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.limits import scale_time_limits

HERE = Path(__file__).parent
HERE_ALONE = "SWITCHGEAR_TEST_ADAPTER" in os.environ

collect_ignore = (
    []
    if HERE_ALONE
    else [
        path.name
        for path in HERE.glob("test_*.py")
        if path.name not in {"test_adapters.py", "test_framework_errors.py", "test_mcp_proxy_runs.py"}
    ]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow machines more time, as the conftest of all tests does that is not loaded in these environments."""
    if HERE_ALONE:
        scale_time_limits(items)
