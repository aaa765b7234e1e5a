"""A crash ends a process that has the embedded engine, although the engine catches its signals."""

import subprocess
import sys
import time

import pytest

from tests.support.limits import READY_S

CRASH = """
import asyncio, ctypes, sys
from pathlib import Path
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import open_store

async def main():
    store = await open_store(Settings(clickhouse_url=f"chdb:{sys.argv[1]}", data_dir=Path(sys.argv[1])))
    print("open", flush=True)
    ctypes.string_at(0)

asyncio.run(main())
"""

LOADED = """
import ctypes
import chdb

print("open", flush=True)
ctypes.string_at(0)
"""


@pytest.mark.slow
def test_a_crash_while_the_store_is_open_ends_the_process_and_prints_where_it_was(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path)], capture_output=True, text=True, timeout=READY_S, check=False
    )

    assert done.stdout == "open\n"
    assert done.returncode == -11
    assert "Segmentation fault" in done.stderr
    assert "in main" in done.stderr


@pytest.mark.deep
def test_without_it_the_engine_keeps_a_crashed_process_alive(tmp_path):
    """If this fails, the engine was mended, and ``crashes.py`` can go."""
    child = subprocess.Popen([sys.executable, "-c", LOADED], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        time.sleep(10)
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()
