"""The fixtures work in a user's tests that register the plugin in their conftest."""

import subprocess
import sys
import textwrap

import pytest

from tests.support.deep import some
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

USERS_TEST = """
    from switchgear import CircuitOpenError, Switchgear
    import pytest

    def test_my_agent_does_without_the_weather(switchgear_fleet, fake_clock):
        gear = Switchgear(switchgear_fleet, service="agent")
        switchgear_fleet.open_circuit("mcp:weather:get_forecast", for_s=60)
        with pytest.raises(CircuitOpenError):
            gear.call("mcp:weather:get_forecast", lambda: "sunny")
        switchgear_fleet.advance(61)
        assert fake_clock.monotonic() == 61
        assert gear.call("mcp:weather:get_forecast", lambda: "sunny") == "sunny"

    def test_the_next_test_has_a_fleet_of_its_own(switchgear_fleet):
        assert switchgear_fleet.events() == []
"""

HEAVY = ("faust", "clickhouse_connect", "chdb", "pydantic_settings", "rich", "structlog", "pytest", "_pytest")


def test_testing_package_imports_no_faust_clickhouse_or_pytest():
    code = f"""
import sys, switchgear.testing, tests.simulator.simulation
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", some([".", "checks"], 1))
def test_fixtures_work_in_a_users_suite(tmp_path, folder):
    """The folder is one from which pytest accepts no ``pytest_plugins``, by its configuration."""
    (tmp_path / folder).mkdir(exist_ok=True)
    if folder == ".":
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["switchgear.testing.pytest_plugin"]\n')
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
    else:
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p switchgear.testing.pytest_plugin\n")
    (tmp_path / folder / "test_agent.py").write_text(textwrap.dedent(USERS_TEST))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=READY_S, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
