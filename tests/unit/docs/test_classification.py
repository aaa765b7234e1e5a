"""The table of the page about classification says what the code counts."""

from __future__ import annotations

import re
from typing import NamedTuple, get_args

import pytest

from switchgear.breaker import ResultKind, family_result_kind, result_kind
from switchgear.guard.caller_errors import CALLER_CLASSES, CallerErrorLimit, CallerErrors
from switchgear.guard.credentials import credential_kind
from switchgear_schemas.enums import ErrorClass, status_of
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT, LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT
from tests.support.snippets import REPOSITORY

NOTHING = "\N{EN DASH}"
PAGE = REPOSITORY / "docs" / "guide" / "classification.md"
OF_CIRCUIT = {ResultKind.SUCCESS: "works", ResultKind.FAILURE: "fails", ResultKind.IGNORED: NOTHING}
OF_CREDENTIAL = {ResultKind.SUCCESS: "accepted", ResultKind.FAILURE: "rejected", ResultKind.IGNORED: NOTHING}


class Row(NamedTuple):
    happens: str
    error_class: str
    tool: str
    server: str
    credential: str
    caller: str


def rows() -> list[Row]:
    text = PAGE.read_text().partition("## What happens, and what it says")[2].partition("\n\n* ")[0]
    found = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in text.strip().splitlines()]
    return [row for row in found[2:] if row.tool]


def classes_of(row: Row) -> list[ErrorClass]:
    return [one for one in get_args(ErrorClass) if f"`{one}`" in row.error_class]


ROWS = rows()
OF_ONE_CLASS = [row for row in ROWS if len(classes_of(row)) == 1]


def caller_word(error_class: ErrorClass | None) -> str:
    """Return what a call of a class does to a row of two mistakes of its caller."""
    errors = CallerErrors()
    limit = CallerErrorLimit(errors, "s", 3)
    for _ in range(2):
        limit.ended("t", None, "tool", "Error", "no", None)
    limit.ended("t", None, error_class, "Error", "no", None)
    return {0: "afresh", 2: NOTHING, 3: "mistake"}[errors.count("s", "t")]


def test_the_table_has_every_class_and_no_other():
    named = set(re.findall(r"`(\w+)`", " ".join(row.error_class for row in ROWS)))
    assert named == set(get_args(ErrorClass))
    assert named > CALLER_CLASSES


@pytest.mark.parametrize("row", OF_ONE_CLASS, ids=lambda row: row.happens)
def test_a_row_says_what_a_call_of_its_class_counts(row):
    (error_class,) = classes_of(row)
    status = status_of(error_class)
    for policy in (FLEET_DEFAULT, LOCAL_DEFAULT):
        assert row.tool.partition(",")[0] == OF_CIRCUIT[result_kind(status, error_class, policy)]
    for policy in (FAMILY_DEFAULT, LOCAL_FAMILY_DEFAULT):
        assert row.server == OF_CIRCUIT[family_result_kind(status, error_class, policy)]
    assert row.credential == OF_CREDENTIAL[credential_kind(status, error_class)]
    assert row.caller == caller_word(error_class)


def test_the_first_row_says_what_a_success_counts():
    row = ROWS[0]
    assert row.tool == OF_CIRCUIT[result_kind("success", None, FLEET_DEFAULT)]
    assert row.server == OF_CIRCUIT[family_result_kind("success", None, FAMILY_DEFAULT)]
    assert row.credential == OF_CREDENTIAL[credential_kind("success", None)]
    assert row.caller == caller_word(None)


def test_a_text_that_is_trusted_counts_as_the_class_that_it_reports():
    (row,) = [row for row in ROWS if len(classes_of(row)) > 1]
    assert classes_of(row) == ["transport", "timeout", "server", "rate_limited"]
    assert {credential_kind(status_of(one), one) for one in classes_of(row)} == {ResultKind.IGNORED}
    assert {caller_word(one) for one in classes_of(row)} == {row.caller} == {"afresh"}
