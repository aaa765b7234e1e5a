"""Waiting for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 20.0, state: Callable[[], object] = lambda: "") -> None:
    """Wait for ``condition``, looking every few milliseconds.

    Raises:
        AssertionError: not within ``seconds``; it shows ``state()``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within the limit {state()}"
        time.sleep(0.005)
