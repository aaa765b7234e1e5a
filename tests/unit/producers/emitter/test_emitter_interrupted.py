"""A signal handler that raises in the call that starts the emitter ends only that call."""

from __future__ import annotations

import pytest

from switchgear import Emitter, Event
from switchgear.runtime.background_thread import Background
from tests.support.waiting import until


class SoftTimeLimitError(Exception):
    """Derives from BaseException, as some errors of Celery do."""


class Interrupted(Background):
    """Raises as a signal handler would when its loop is first requested."""

    signals = 1

    def loop(self):
        if self.signals:
            self.signals -= 1
            raise SoftTimeLimitError
        return super().loop()


def test_the_next_event_starts_the_background_after_an_interrupted_one():
    emitter = Emitter("127.0.0.1:1", background=Interrupted("test"))
    with pytest.raises(SoftTimeLimitError):
        emitter.emit(Event("t", "success"))
    emitter.emit(Event("t", "success"))
    until(lambda: emitter.status().alive)
    assert emitter.status().buffered == 2
    emitter.close(0)
