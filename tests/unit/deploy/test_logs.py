"""What a failure looks like in the log of our processes."""

import json
import logging
import re
import sys

import pytest

from switchgear_cli.logs import configure_logging
from switchgear_cli.plain_logs import configure_small_logging
from switchgear_schemas.settings import load_settings


def fail(password):
    raise ConnectionError(f"no answer after {len(password)} tries")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_names_the_error_and_the_place_and_shows_no_variables(capsys, log_format):
    configure_logging(load_settings(log_format=log_format))
    try:
        fail("correct horse")
    except ConnectionError:
        logging.getLogger("faust").exception("it failed")
    logged = capsys.readouterr().err
    assert "no answer after 13 tries" in logged
    assert "test_logs.py" in logged
    assert "correct horse" not in logged.replace('fail("correct horse")', "")
    assert len(logged.splitlines()) < 15


def test_a_line_of_json_holds_the_whole_failure(capsys):
    configure_logging(load_settings(log_format="json"))
    try:
        fail("x")
    except ConnectionError:
        logging.getLogger("faust").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    (logged,) = json.loads(line)["exception"]
    assert (logged["exc_type"], logged["exc_value"]) == ("ConnectionError", "no answer after 1 tries")
    assert "locals" not in logged["frames"][-1]


def test_malformed_requests_do_not_fill_the_log(capsys):
    configure_logging(load_settings())
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    assert [line.count("Exception in ASGI") for line in capsys.readouterr().err.splitlines()] == [1]


@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_a_terminal_is_coloured_unless_no_color_is_set(capsys, monkeypatch, no_color, coloured):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_logging(load_settings())
    logging.getLogger("faust").error("it failed")
    assert ("\x1b[" in capsys.readouterr().err) is coloured


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_small_process_writes_the_same_lines(capsys, log_format):
    written = []
    for configure in (configure_logging, configure_small_logging):
        configure(load_settings(log_format=log_format))
        logging.getLogger("switchgear.a").warning("hé%s\n\u202e %d", "llo", 7)
        logging.getLogger("switchgear.b").error("a text that is longer than the column of texts in the log")
        logging.getLogger("switchgear.b").info("x")
        try:
            fail("x")
        except ConnectionError:
            logging.getLogger("faust").exception("it failed")
        lines = capsys.readouterr().err.splitlines()
        written.append([re.sub(r"20\d\d-[-0-9T:.]+Z", "TIME", line) for line in lines])
    assert written[0] == written[1]
    assert len(written[0]) >= 3
