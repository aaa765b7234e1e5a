"""The tests of an adapter run in the environment of its framework: see environments.py. Here only those run
that start it, and the table of exceptions for what the extra ``dev`` brings."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent

collect_ignore = (
    []
    if "SWITCHGEAR_TEST_ADAPTER" in os.environ
    else [
        path.name
        for path in HERE.glob("test_*.py")
        if path.name not in {"test_adapters.py", "test_framework_errors.py", "test_mcp_proxy_runs.py"}
    ]
)
