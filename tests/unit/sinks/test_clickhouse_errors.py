"""ClickHouse's errors as numbers, as sentences, and as a decision about an insert. The texts are those of chDB 26.9 and clickhouse-connect 1.12."""

from __future__ import annotations

import errno
import time

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from switchgear_sinks.clickhouse_errors import (
    RETRIABLE,
    InsertFailureKind,
    classify_insert_failure,
    clickhouse_code,
    clickhouse_message,
)
from tests.support.table import table

PARSE = (
    "Code: 376. DB::Exception: Code: 376. DB::Exception: Cannot parse uuid zz: (while reading the value of key metric_id): (at row 2)\n"
    ": (in file/uri /tmp/x.raw): While executing JSONEachRowRowInputFormat: While executing File: data for INSERT was parsed from file. "
    "(CANNOT_PARSE_UUID) (version 26.9.2.1). (CANNOT_PARSE_UUID)"
)
CONSTRAINT = (
    "Code: 469. DB::Exception: Constraint `status_is_known` for table switchgear.tool_metrics (55860304) is violated at row 7. "
    "Expression: (status IN ('success')). Column values: status = 'x'. (VIOLATED_CONSTRAINT)"
)


def test_insert_failure_names_the_row_that_cannot_be_parsed() -> None:
    failure = classify_insert_failure(DatabaseError(PARSE, code=376))
    assert (failure.kind, failure.row, failure.code) == (InsertFailureKind.REJECT_ROW, 1, 376)
    assert failure.reason == "Cannot parse uuid zz: (while reading the value of key metric_id): (at row 2)"


def test_insert_failure_names_the_row_that_breaks_a_constraint() -> None:
    failure = classify_insert_failure(DatabaseError(CONSTRAINT, code=469))
    assert (failure.kind, failure.row) == (InsertFailureKind.REJECT_ROW, 6)
    assert "status_is_known" in failure.reason


@table("code", sorted(RETRIABLE))
def test_insert_is_retried_for_every_error_that_passes_by_itself(code: int) -> None:
    assert (
        classify_insert_failure(DatabaseError(f"Code: {code}. DB::Exception: later", code=code)).kind
        is InsertFailureKind.RETRY
    )


def test_insert_is_retried_when_memory_ran_out_at_a_row() -> None:
    error = DatabaseError("Code: 241. DB::Exception: Memory limit exceeded: (at row 7)", code=241)
    failure = classify_insert_failure(error)
    assert (failure.kind, failure.row) == (InsertFailureKind.RETRY, None)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("Error HTTPConnectionPool(host='localhost', port=8123): Max retries exceeded"),
        DatabaseError("HTTP driver received HTTP status 502, server response: bad gateway"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError("timed out"),
    ],
)
def test_insert_is_retried_when_clickhouse_cannot_be_reached(error: Exception) -> None:
    failure = classify_insert_failure(error)
    assert failure.kind is InsertFailureKind.RETRY
    assert failure.reason
    assert not failure.disk_full


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        DatabaseError(
            "Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)", code=243
        ),
        DatabaseError(
            "Code: 1001. DB::Exception: std::exception: filesystem error: No space left on device", code=1001
        ),
    ],
)
def test_insert_is_retried_when_the_disk_is_full(error: Exception) -> None:
    failure = classify_insert_failure(error)
    assert (failure.kind, failure.disk_full) == (InsertFailureKind.RETRY, True)


@table("code", [16, 60, 81, 47, 497, 516])
def test_insert_stops_for_an_error_that_neither_waiting_nor_removing_a_row_resolves(code: int) -> None:
    assert (
        classify_insert_failure(DatabaseError(f"Code: {code}. DB::Exception: no", code=code)).kind
        is InsertFailureKind.STOP
    )


def test_insert_stops_for_an_error_that_is_not_from_clickhouse() -> None:
    failure = classify_insert_failure(KeyError("a mistake"))
    assert failure.kind is InsertFailureKind.STOP
    assert "a mistake" in failure.reason


def test_code_attribute_of_the_exception_wins_over_the_code_in_its_text():
    assert clickhouse_code(DatabaseError("Code: 60. x", code=62)) == 62
    assert clickhouse_code(DatabaseError("Code: 60. DB::Exception: x")) == 60
    assert clickhouse_code(DatabaseError("connection reset")) is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Code: 60. DB::Exception: Unknown table 'x'. (UNKNOWN_TABLE) (version 26.9.2.1)", "Unknown table 'x'."),
        ("Code: 164. DB::Exception: Code: 164. DB::Exception: Cannot modify. (READONLY) (version 1). (READONLY)", "Cannot modify."),
        ("Received ClickHouse exception, code: 47, server response: Code: 47. DB::Exception: No x\n(for url http://h:8123)", "No x."),
        ("no prefix", "no prefix."),
    ],
)  # fmt: skip
def test_message_has_no_prefix_version_or_address(raw, expected):
    assert clickhouse_message(DatabaseError(raw)) == expected


def test_very_long_message_is_cut():
    assert len(clickhouse_message(DatabaseError("x" * 5000))) == 601


@pytest.mark.parametrize(
    ("noise", "end"), [("(AB)", ""), (" ", "y"), ("(version ", "y"), ("Code: 1. DB::Exception: ", "")]
)
def test_message_made_of_noise_is_cleaned_within_seconds(noise, end):
    started = time.thread_time()
    text = noise * (20_000 // len(noise)) + end
    assert len(clickhouse_message(DatabaseError(f"Code: 47. DB::Exception: x {text}"))) <= 601
    assert time.thread_time() - started < 5
