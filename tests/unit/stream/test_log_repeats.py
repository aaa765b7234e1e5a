from __future__ import annotations

import logging

import pytest

from switchgear_stream import log_throttle as log_repeats
from switchgear_stream.log_throttle import Repeats


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(log_repeats.time, "monotonic", lambda: now[0])
    return now


def _line(name: str = "aiokafka.cluster", message: str = "broker %s away", *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, args or (1,), None)


def test_one_line_a_second_of_each_kind_passes_and_tells_of_the_others(clock):
    repeats = Repeats("aiokafka")
    assert repeats.filter(_line())
    assert [repeats.filter(_line()) for _ in range(5)] == [False] * 5
    clock[0] += 1
    line = _line()
    assert repeats.filter(line)
    assert line.getMessage() == "broker 1 away (and 5 more like it)"


def test_other_messages_and_other_loggers_are_not_held_back(clock):
    repeats = Repeats("aiokafka")
    assert repeats.filter(_line())
    assert repeats.filter(_line(message="topic %s gone"))
    assert all(repeats.filter(_line("switchgear_stream.owner")) for _ in range(5))


def test_what_is_remembered_is_bounded(clock):
    repeats = Repeats("aiokafka")
    for number in range(5000):
        repeats.filter(_line(message=f"message {number} %s"))
    assert len(repeats._last) <= log_repeats.MAX_KINDS + 1
