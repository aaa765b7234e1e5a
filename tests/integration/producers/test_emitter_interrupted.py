"""A signal handler that raises in the call that wakes the emitter loses no event, with a real broker."""

from __future__ import annotations

import pytest

from switchgear import Emitter, Event
from switchgear.runtime.background_thread import Background
from tests.support.limits import HAPPEN_S
from tests.support.waiting import until


class SoftTimeLimitError(Exception):
    """Derives from BaseException, as some errors of Celery do."""


class Interrupted(Background):
    """Raises as a signal handler would, a given number of times, when its loop is requested."""

    signals = 0

    def loop(self):
        if self.signals:
            self.signals -= 1
            raise SoftTimeLimitError
        return super().loop()


@pytest.fixture
def background():
    return Interrupted("test")


@pytest.fixture(params=["memory", "spool"])
def emitter(request, settings, background, tmp_path):
    """Return an emitter that has sent an event and waits for the next."""
    made = Emitter(
        settings.kafka,
        topic_prefix=settings.topic_prefix,
        background=background,
        spool_dir=tmp_path if request.param == "spool" else None,
    )
    made.emit(Event("t", "success"))
    until(lambda: made.status().acknowledged == 1, HAPPEN_S)
    until(lambda: made.idle)
    yield made
    made.close(10)


def test_the_next_event_wakes_the_background_after_an_interrupted_one(emitter, background):
    background.signals = 1
    with pytest.raises(SoftTimeLimitError):
        emitter.emit(Event("t", "success"))
    emitter.emit(Event("t", "success"))
    until(lambda: emitter.status().acknowledged == 3, HAPPEN_S)


def test_an_event_interrupted_by_a_signal_is_sent_without_another_one(emitter, background):
    background.signals = 1
    with pytest.raises(SoftTimeLimitError):
        emitter.emit(Event("t", "success"))
    until(lambda: emitter.status().acknowledged == 2, HAPPEN_S)


def test_an_event_whose_wake_up_was_lost_is_sent(emitter):
    """The signal comes after the flag is cleared and before the wake-up, so nothing wakes the background."""
    until(lambda: emitter.idle and not len(emitter.buffer))
    emitter.idle = False
    emitter.buffer.items.append((Event("t", "success"), 0.0))
    until(lambda: emitter.status().acknowledged == 2, HAPPEN_S)
