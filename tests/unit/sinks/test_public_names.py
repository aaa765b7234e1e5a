"""What `switchgear_sinks` offers, and what importing it costs."""

import subprocess
import sys

import pytest

import switchgear_sinks
from tests.support.limits import READY_S
from tests.support.table import table


@table("name", switchgear_sinks.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(switchgear_sinks, name).__name__ in {name, "ToolExecution"}
    assert name in dir(switchgear_sinks)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'ToolMetrics'"):
        _ = switchgear_sinks.ToolMetrics


@pytest.mark.slow
def test_dead_letters_do_not_import_clickhouse():
    script = (
        "import sys, switchgear_sinks.dead; print([m for m in sys.modules if m.startswith(('clickhouse', 'chdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=READY_S, check=True)
    assert done.stdout.strip() == "[]"
