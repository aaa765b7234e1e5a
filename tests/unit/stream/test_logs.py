from __future__ import annotations

import logging

import pytest

from switchgear.runtime.throttled_log import Throttle
from switchgear_stream.logs import CHATTY_LOGGERS, REPEAT_S, RepeatFilter, quiet_libraries
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def repeats(clock):
    return RepeatFilter("aiokafka", Throttle(REPEAT_S, clock=clock))


def _line(name: str = "aiokafka.cluster", message: str = "broker %s away", *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, args or (1,), None)


def test_one_line_per_second_of_each_message_passes_with_the_number_left_out(clock, repeats):
    assert repeats.filter(_line())
    assert [repeats.filter(_line()) for _ in range(5)] == [False] * 5
    clock.now += REPEAT_S
    line = _line()
    assert repeats.filter(line)
    assert line.getMessage() == "broker 1 away (and 5 more like it)"


def test_other_messages_and_other_loggers_pass(repeats):
    assert repeats.filter(_line())
    assert repeats.filter(_line(message="topic %s gone"))
    assert all(repeats.filter(_line("switchgear_stream.owner")) for _ in range(5))


def test_quiet_libraries_filters_every_handler_of_the_root_logger_and_hides_chatty_lines(monkeypatch):
    handler = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    levels = {name: logging.getLogger(name).level for name in CHATTY_LOGGERS}
    try:
        quiet_libraries()
        assert [type(each) for each in handler.filters] == [RepeatFilter]
        assert all(logging.getLogger(name).level >= logging.WARNING for name in CHATTY_LOGGERS)
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
