"""``import switchgear`` is the SDK and nothing more."""

from __future__ import annotations

import subprocess
import sys

import pytest

import switchgear
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

SERVERS = ("faust", "clickhouse_connect", "chdb", "pydantic_settings", "rich", "structlog")
HEAVY = (*SERVERS, "aiokafka", "asyncio", "pydantic")
"""aiokafka takes 100 ms, asyncio 40, pydantic with our models 140 (measured): more than all the rest together."""
LOCAL = """
import sys, switchgear
gear = switchgear.Switchgear.local()
@gear.guard("tool")
def tool(broken=False):
    if broken:
        raise ConnectionError("no route")
    return "found"
tool()
for _ in range(9):
    try:
        tool(broken=True)
    except (ConnectionError, switchgear.CircuitOpenError):
        pass
assert gear.status().local == {"tool": "open"} and gear.is_open("tool")
"""


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S
    ).stdout.strip()


def cpu_s(modules: str) -> float:
    """CPU seconds of an import in a fresh process."""
    code = f"import time; began = time.process_time(); import {modules}; print(time.process_time() - began)"
    return float(run(code))


def test_import_loads_nothing_that_is_needed_later():
    assert run(f"import sys, switchgear; print([name for name in {HEAVY!r} if name in sys.modules])") == "[]"


def test_local_circuit_works_without_heavy_imports():
    assert run(f"{LOCAL}\nprint([name for name in {HEAVY!r} if name in sys.modules])") == "[]"


def test_connected_client_imports_no_faust_or_clickhouse():
    code = f"""
import sys, switchgear
gear = switchgear.Switchgear("127.0.0.1:1")
gear.try_acquire("t").success()
gear.close(0)
print([name for name in {SERVERS!r} if name in sys.modules])
"""
    assert run(code) == "[]"


def test_import_takes_no_longer_than_that_of_the_contracts():
    """It doesn't import them: 130 ms and 120 on a slow and busy core. Room for half as much again.

    Measured in turns, because the speed of a busy machine changes from one second to the next.
    """
    models = "switchgear_schemas.execution, switchgear_schemas.circuit, switchgear_schemas.command"
    pairs = [(cpu_s("switchgear"), cpu_s(models)) for _ in range(3)]
    assert min(ours for ours, _ in pairs) < 1.5 * min(theirs for _, theirs in pairs)


def test_import_of_the_enums_loads_no_pydantic():
    assert run("import sys, switchgear_schemas.enums; print('pydantic' in sys.modules)") == "False"


def test_every_public_name_can_be_imported():
    for name in switchgear.__all__:
        assert getattr(switchgear, name) is not None, name
    assert not hasattr(switchgear, "nothing_of_this_name")


def test_client_from_the_environment_needs_no_extra():
    """None of what the extra ``service`` brings: its modules can't be imported here."""
    code = """
import sys
for name in ("pydantic_settings", "platformdirs", "yaml", "structlog", "rich", "httpx", "cyclopts", "tenacity"):
    sys.modules[name] = None
from switchgear import CircuitFollower, Emitter, Switchgear
for kind in (Switchgear, Emitter, CircuitFollower):
    kind.from_env().close(0)
print("made")
"""
    assert run(code) == "made"
