"""A closed emitter keeps returning the result of its close."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from switchgear import Emitter, Event
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def emitter():
    made = Emitter(NO_BROKER)
    yield made
    made.close(0)


def test_every_close_returns_false_when_events_were_lost(emitter):
    emitter.emit(Event("t", "success"))
    assert [emitter.close(0), emitter.close(0), emitter.close(10)] == [False, False, False]
    assert emitter.status().dropped == 1


def test_a_flush_after_a_close_that_lost_events_returns_false(emitter):
    emitter.emit(Event("t", "success"))
    emitter.close(0)
    assert emitter.flush(0) is False


def test_close_and_flush_return_true_when_nothing_was_lost(emitter):
    assert [emitter.close(0), emitter.close(0), emitter.flush(0)] == [True, True, True]


@pytest.mark.parametrize("spooled", [False, True])
def test_a_flush_during_a_close_by_another_thread_returns_false_for_an_unsent_event(tmp_path, spooled):
    emitter = Emitter(NO_BROKER, spool_dir=tmp_path if spooled else None)
    emitter.emit(Event("t", "success"))
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(emitter.flush(600)))
    waiting.start()
    until(lambda: emitter.status().alive)
    assert emitter.close(0) is False
    waiting.join(HAPPEN_S)
    assert answers == [False]


def test_a_close_in_a_callback_of_close_returns(emitter, caplog):
    """Close again during the log message of the first close, as a signal handler can."""

    class Closing(logging.Handler):
        def emit(self, record):
            answers.append(emitter.close(5))

    answers: list[bool] = []
    handler = Closing()
    logging.getLogger("switchgear.emitter").addHandler(handler)
    try:
        emitter.emit(Event("t", "success"))
        assert emitter.close(0) is False
    finally:
        logging.getLogger("switchgear.emitter").removeHandler(handler)
    assert answers
    assert set(answers) == {False}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_count_events_that_its_parent_lost():
    code = f"""
import os, sys
from switchgear import Emitter, Event
emitter = Emitter({NO_BROKER!r})
emitter.emit(Event("t", "success"))
emitter.close(0)
child = os.fork()
if child == 0:
    os._exit(0 if emitter.close(0) and emitter.flush(0) else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
