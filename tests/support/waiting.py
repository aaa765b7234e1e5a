"""Waiting for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for ``condition``, looking every few milliseconds.

    Raises:
        AssertionError: not within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the limit"
        time.sleep(0.005)
