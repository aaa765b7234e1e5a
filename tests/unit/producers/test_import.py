"""``import switchgear`` is the SDK and nothing more."""

from __future__ import annotations

import subprocess
import sys

import switchgear

HEAVY = ("faust", "clickhouse_connect", "chdb", "pydantic_settings", "aiokafka", "asyncio", "rich", "structlog")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_it_imports_nothing_that_it_does_not_need_at_once():
    assert run(f"import sys, switchgear; print([name for name in {HEAVY!r} if name in sys.modules])") == "[]"


def test_a_connected_client_imports_neither_faust_nor_clickhouse():
    code = f"""
import sys, switchgear
gear = switchgear.Switchgear("127.0.0.1:1")
gear.try_acquire("t").success()
gear.close(0)
print([name for name in {HEAVY[:4]!r} if name in sys.modules])
"""
    assert run(code) == "[]"


def test_it_takes_no_more_than_twice_what_its_contracts_take():
    """The contracts are pydantic models: 140 ms of 180 on a slow core, 45 of 60 on a fast one. Ours is the rest."""
    timed = "import time; began = time.process_time(); import {0}; print(time.process_time() - began)"
    contracts = min(float(run(timed.format("switchgear_schemas"))) for _ in range(3))
    whole = min(float(run(timed.format("switchgear"))) for _ in range(3))
    assert whole < 2 * contracts


def test_everything_it_promises_is_there():
    for name in switchgear.__all__:
        assert getattr(switchgear, name) is not None, name
    assert not hasattr(switchgear, "nothing_of_this_name")
