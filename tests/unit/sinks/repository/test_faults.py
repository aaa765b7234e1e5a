"""ClickHouse's errors as numbers and sentences."""

import time

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from switchgear_sinks.repository.faults import clickhouse_code, clickhouse_message


def test_the_code_of_the_exception_wins_over_the_text():
    assert clickhouse_code(DatabaseError("Code: 60. x", code=62)) == 62
    assert clickhouse_code(DatabaseError("Code: 60. DB::Exception: x")) == 60
    assert clickhouse_code(DatabaseError("connection reset")) is None


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("Code: 60. DB::Exception: Unknown table 'x'. (UNKNOWN_TABLE) (version 26.9.2.1)", "Unknown table 'x'."),
        ("Code: 164. DB::Exception: Code: 164. DB::Exception: Cannot modify. (READONLY) (version 1). (READONLY)", "Cannot modify."),
        ("Received ClickHouse exception, code: 47, server response: Code: 47. DB::Exception: No x\n(for url http://h:8123)", "No x."),
        ("no prefix", "no prefix."),
    ],
)  # fmt: skip
def test_the_message_is_what_a_person_needs(raw, told):
    assert clickhouse_message(DatabaseError(raw)) == told


def test_a_very_long_message_is_cut():
    assert len(clickhouse_message(DatabaseError("x" * 5000))) == 601


@pytest.mark.parametrize(
    ("noise", "end"), [("(AB)", ""), (" ", "y"), ("(version ", "y"), ("Code: 1. DB::Exception: ", "")]
)
def test_a_message_made_of_noise_takes_no_long_time(noise, end):
    started = time.monotonic()
    text = noise * (20_000 // len(noise)) + end
    assert len(clickhouse_message(DatabaseError(f"Code: 47. DB::Exception: x {text}"))) <= 601
    assert time.monotonic() - started < 5
