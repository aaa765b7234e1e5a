"""Recorded calls come line by line. Each is an execution, or has the reason why it is not."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from switchgear_api.replay.history import HistoryError, read_history
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.wire import decode_execution

GOOD = b'{"tool_name":"search","status":"success","colour":"blue"}'


def write(folder: Path, *lines: bytes, name: str = "calls.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_every_line_has_its_number_its_bytes_and_its_object(tmp_path):
    lines = list(read_history(write(tmp_path, GOOD, b"", b"  \r", GOOD + b"\r")))
    assert [line.number for line in lines] == [1, 4]
    assert [line.raw for line in lines] == [GOOD, GOOD]
    assert lines[0].event == decode_execution(GOOD)
    assert lines[0].reason == ""


@pytest.mark.parametrize(
    ("raw", "field", "reason"),
    [
        (b"nonsense", "", "not JSON"),
        (b'["a list"]', "", "Expected `object`"),
        (b'{"status":"success"}', "tool_name", "missing required field"),
        (b'{"tool_name":"","status":"success"}', "tool_name", "length >= 1"),
        (b'{"tool_name":"a","status":"weird"}', "status", "Invalid enum value"),
        (b'{"tool_name":"a","status":"success","recorded_at":"1970-01-01T00:00:00Z"}', "recorded_at", "between 2000"),
        (b'{"tool_name":"a","status":"success","execution_time_ms":-1}', "execution_time_ms", ">= 0"),
        (b"\xff\xfe", "", "not JSON"),
    ],
)
def test_a_line_that_is_not_an_execution_says_which_field_and_why(tmp_path, raw, field, reason):
    bad, good = read_history(write(tmp_path, raw, GOOD))
    assert (bad.event, bad.field) == (None, field)
    assert reason in bad.reason
    assert good.event is not None


def test_a_line_beyond_the_limit_is_refused_without_being_read_whole(tmp_path):
    long = b'{"tool_name":"a","status":"success","x":"' + b"y" * (3 * MAX_EVENT_BYTES) + b'"}'
    bad, good = read_history(write(tmp_path, long, GOOD))
    assert bad.event is None
    assert "more than the 1048576 allowed" in bad.reason
    assert len(bad.raw) == MAX_EVENT_BYTES + 1
    assert (good.number, good.raw) == (2, GOOD)


def test_a_line_at_exactly_the_limit_is_good(tmp_path):
    frame = len(b'{"tool_name":"a","status":"success","x":""}')
    line = b'{"tool_name":"a","status":"success","x":"' + b"y" * (MAX_EVENT_BYTES - frame) + b'"}'
    assert len(line) == MAX_EVENT_BYTES
    first, second = read_history(write(tmp_path, line, GOOD))
    assert first.event is not None
    assert second.number == 2


def test_the_last_line_needs_no_line_ending(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(GOOD + b"\n" + GOOD)
    assert len(list(read_history(path))) == 2


@pytest.mark.parametrize("name", ["calls.jsonl.gz", "calls.jsonl"])
def test_gzip_is_recognised_by_its_content_whatever_the_name(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(GOOD + b"\n" + GOOD + b"\n"))
    assert [line.event is not None for line in read_history(str(path))] == [True, True]


def test_a_hyphen_is_the_standard_input_and_stays_open(monkeypatch):
    source = io.BytesIO(gzip.compress(GOOD + b"\n"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
    assert [line.raw for line in read_history("-")] == [GOOD]


@pytest.mark.slow
def test_a_cut_gzip_file_gives_what_came_before_the_damage_and_then_says_so(tmp_path):
    whole = gzip.compress(b"".join(b'{"tool_name":"t%d","status":"success"}\n' % i for i in range(20_000)))
    path = tmp_path / "cut.gz"
    path.write_bytes(whole[: len(whole) // 2])
    seen = []
    with pytest.raises(HistoryError, match=r"damaged gzip file after line \d+"):
        seen.extend(read_history(path))
    assert len(seen) > 1000
    assert all(line.event is not None for line in seen)


def test_a_missing_history_file_is_named_in_the_error(tmp_path):
    with pytest.raises(HistoryError, match=r"There is no file .*nowhere\.jsonl\. Check the path"):
        list(read_history(tmp_path / "nowhere.jsonl"))


def test_a_folder_in_place_of_a_history_file_is_named_in_the_error(tmp_path):
    with pytest.raises(HistoryError, match="can't be read after line 0"):
        list(read_history(tmp_path))


def test_an_empty_file_has_no_lines(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    assert list(read_history(path)) == []
