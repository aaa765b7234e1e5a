"""Fixtures of the emitter's tests."""

from __future__ import annotations

import threading

import pytest

from switchgear.runtime.background_thread import WORKER


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set: no thread for disk work can be started, as under a container's limit. Clear: it can."""
    none, really = threading.Event(), threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if none.is_set() and thread.name == WORKER:
            raise RuntimeError("can't start new thread")
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    none.set()
    return none
