"""What a failed insert means. The texts are what chDB 26.9 and clickhouse-connect 1.12 said."""

from __future__ import annotations

import errno

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from switchgear_sinks.writer.insert_failure import RETRIABLE, Kind, judge

PARSE = (
    "Code: 376. DB::Exception: Code: 376. DB::Exception: Cannot parse uuid zz: (while reading the value of key metric_id): (at row 2)\n"
    ": (in file/uri /tmp/x.raw): While executing JSONEachRowRowInputFormat: While executing File: data for INSERT was parsed from file. "
    "(CANNOT_PARSE_UUID) (version 26.9.2.1). (CANNOT_PARSE_UUID)"
)
CONSTRAINT = (
    "Code: 469. DB::Exception: Constraint `status_is_known` for table switchgear.tool_metrics (55860304) is violated at row 7. "
    "Expression: (status IN ('success')). Column values: status = 'x'. (VIOLATED_CONSTRAINT)"
)


def test_a_row_that_cannot_be_parsed_is_found_by_its_number() -> None:
    verdict = judge(DatabaseError(PARSE, code=376))
    assert (verdict.kind, verdict.row, verdict.code) == (Kind.ROW, 1, 376)
    assert verdict.reason == "Cannot parse uuid zz: (while reading the value of key metric_id): (at row 2)"


def test_a_row_that_breaks_a_constraint_is_found_by_its_number() -> None:
    verdict = judge(DatabaseError(CONSTRAINT, code=469))
    assert (verdict.kind, verdict.row) == (Kind.ROW, 6)
    assert "status_is_known" in verdict.reason


@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_trouble_that_passes_is_tried_again(code: int) -> None:
    assert judge(DatabaseError(f"Code: {code}. DB::Exception: later", code=code)).kind is Kind.RETRY


def test_memory_that_ran_out_at_a_row_says_nothing_about_the_row() -> None:
    error = DatabaseError("Code: 241. DB::Exception: Memory limit exceeded: (at row 7)", code=241)
    verdict = judge(error)
    assert (verdict.kind, verdict.row) == (Kind.RETRY, None)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("Error HTTPConnectionPool(host='localhost', port=8123): Max retries exceeded"),
        DatabaseError("HTTP driver received HTTP status 502, server response: bad gateway"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError("timed out"),
    ],
)
def test_a_broken_way_to_clickhouse_is_tried_again(error: Exception) -> None:
    verdict = judge(error)
    assert verdict.kind is Kind.RETRY
    assert verdict.reason
    assert not verdict.disk_full


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
def test_a_full_disk_is_tried_again_and_called_by_its_name(error: Exception) -> None:
    verdict = judge(error)
    assert (verdict.kind, verdict.disk_full) == (Kind.RETRY, True)


@pytest.mark.parametrize("code", [16, 60, 81, 47, 497, 516])
def test_what_neither_waiting_nor_leaving_out_a_row_can_mend_stops(code: int) -> None:
    assert judge(DatabaseError(f"Code: {code}. DB::Exception: no", code=code)).kind is Kind.STOP


def test_an_error_of_our_own_stops() -> None:
    verdict = judge(KeyError("a mistake"))
    assert verdict.kind is Kind.STOP
    assert "a mistake" in verdict.reason
