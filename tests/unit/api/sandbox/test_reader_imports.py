"""What a query's process imports: each query pays for it, and it is what an attack would find."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.limits import READY_S

UNUSED = {"clickhouse_connect", "structlog", "pydantic", "numpy", "pyarrow"}


@pytest.mark.slow
def test_a_querys_process_imports_neither_a_client_nor_logging():
    code = "import switchgear_api.sandbox.reader, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=READY_S
    )
    assert not UNUSED & set(done.stdout.split())
