"""Fixtures of the emitter's tests."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set: threads for disks can't be had, as under a container's limit. Clear: they can."""
    none, really = threading.Event(), threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if none.is_set() and thread.name.endswith("-disk"):
            raise RuntimeError("can't start new thread")
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    none.set()
    return none
