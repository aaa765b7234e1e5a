from __future__ import annotations

import logging

from switchgear_stream.logs import CHATTY_LOGGERS, quiet_libraries


def test_quiet_libraries_hides_chatty_lines():
    levels = {name: logging.getLogger(name).level for name in CHATTY_LOGGERS}
    try:
        quiet_libraries()
        assert all(logging.getLogger(name).level >= logging.WARNING for name in CHATTY_LOGGERS)
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
