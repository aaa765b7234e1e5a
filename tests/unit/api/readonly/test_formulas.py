"""Texts of a CSV file are no formulas, and numbers stay numbers."""

import csv
import io
import time

import pytest

from switchgear_api.readonly.formulas import without_formulas
from tests.support.table import table

SIGNS = ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"]


def cells(text, separator):
    """The cells as a spreadsheet reads them that expects this separator."""
    found = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return [cell for row in found for cell in row]


def written(*values):
    """A row as ClickHouse writes it: texts in quotes."""
    return ",".join('"' + each.replace('"', '""') + '"' if isinstance(each, str) else str(each) for each in values)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("before", ["", "x;", "x\n", "x\r\n", "x\t", 'x;"', 'x";', 'x;""', "\t", "\r", "\n", 'x\n"'])
def test_no_cell_is_a_formula_whatever_separator_the_spreadsheet_expects(before, sign, separator):
    row = written(7, f"{before}{sign}cmd|' /C calc'!A0", "db") + "\n"
    found = without_formulas(row.encode()).decode()
    assert [cell for cell in cells(found, separator) if cell.startswith((*SIGNS, "\t", "\r"))] == []


def test_a_formula_becomes_a_text_with_an_apostrophe():
    assert without_formulas(b'"tool_name","calls"\n"=1+1",3\n') == b'"tool_name","calls"\n"\'=1+1",3\n'


def test_the_name_of_a_column_is_a_text_too():
    assert without_formulas(b'"=1+1"\n3\n') == b'"\'=1+1"\n3\n'


@table(
    "row",
    [
        written(-5, "db"), "-1.5,-7,nan,-inf,\\N,true", '"[1,-2]","2026-11-28 12:00:00.000","mcp:a-b:c"',
        written("a - b", "x; -5", "a=b", "me@example.com", "it's", '"quoted"', ""), '-5\n"db",-3\n-4,"x"',
    ],
)  # fmt: skip
def test_numbers_dates_and_ordinary_texts_stay_as_they_are(row):
    assert without_formulas(row.encode()) == row.encode()


@pytest.mark.slow
def test_a_long_file_takes_time_in_proportion_to_its_size():
    hostile = ('"' + ';"";""=' * 200_000 + '"\n').encode()
    began = time.thread_time()  # other tests may have the processor meanwhile
    without_formulas(hostile)
    assert time.thread_time() - began < 2
