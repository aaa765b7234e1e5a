"""How long tests wait before they fail: one number a kind, in seconds. A passing test never waits that long.

The numbers suit two quiet cores. They grow with the slowness of the machine, which is measured once at the start of a run, and with
``SWITCHGEAR_TEST_PATIENCE`` (a factor, 1 by default).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

PATIENCE_VARIABLE: Final = "SWITCHGEAR_TEST_PATIENCE"
_MEASURED_VARIABLE: Final = "SWITCHGEAR_TEST_SLOWNESS"
_LOOPS: Final = 400_000
_LOOPS_S: Final = 0.02
"""What the loops take on two quiet cores of 2026."""
_MOST: Final = 8.0


def _slowness() -> float:
    """Return how many times longer this machine takes now than a quiet one. All processes of a run share the first measurement."""
    if (known := os.environ.get(_MEASURED_VARIABLE)) is not None:
        return float(known)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(_LOOPS):
            pass
        times.append(time.perf_counter() - began)
    found = min(_MOST, max(1.0, sum(times) / len(times) / _LOOPS_S))
    os.environ[_MEASURED_VARIABLE] = str(found)
    return found


FACTOR: Final = _slowness() * float(os.environ.get(PATIENCE_VARIABLE, "1"))

ANSWER_S: Final = 20.0 * FACTOR
"""One request, or one step inside a process."""
HAPPEN_S: Final = 60.0 * FACTOR
"""Something that several processes must do first, such as an event that becomes a row."""
READY_S: Final = 90.0 * FACTOR
"""A process or a whole system becomes ready, or a command ends."""
STOP_S: Final = 30.0 * FACTOR
"""A process ends after it was asked to."""
BUILD_S: Final = 280.0 * FACTOR
"""An installation, a compiler or a site builder ends. It is below the time limit of a test."""


def scale_time_limits(items: Iterable[pytest.Item]) -> None:
    """Let the time limits of whole tests grow, too: that of its ``timeout`` marker, or else of pytest's configuration."""
    import pytest  # noqa: PLC0415 - programs that tests start have these limits, too

    if FACTOR == 1:
        return
    for item in items:
        marker = item.get_closest_marker("timeout")
        if marker is not None:
            item.add_marker(pytest.mark.timeout(marker.args[0] * FACTOR), append=False)
        elif item.config.getoption("timeout") is None:
            item.add_marker(pytest.mark.timeout(float(item.config.getini("timeout")) * FACTOR))
