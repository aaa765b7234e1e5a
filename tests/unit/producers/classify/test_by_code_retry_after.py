"""The wait that an answer asks for is read in every form."""

from __future__ import annotations

import email.utils
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.classify.by_code import from_headers, retry_after
from tests.support.table import table

NOW = 1_700_000_000.0


@table(
    ("headers", "expected"),
    [
        ({"Retry-After": "17"}, 17),
        ({"retry-after": "17"}, 17),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": 3}, 3),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": email.utils.formatdate(NOW + 30, usegmt=True)}, 30),
        ({"retry-after": email.utils.formatdate(NOW - 30, usegmt=True)}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": b"5"}, None),
        ({"retry-after": 10**400}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 23:14:20 +0100"}, 60),
        ({}, None),
    ],
)
def test_reads_the_wait_in_headers(headers, expected):
    assert from_headers(headers, now=lambda: NOW) == expected


@pytest.fixture
def in_new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "date", ["Tue Nov 14 22:14:20 2023", "Tue, 14 Nov 2023 22:14:20 -0000", "Tue, 14 Nov 2023 22:14:20"]
)
def test_date_without_a_zone_is_utc(date, in_new_york):
    assert from_headers({"retry-after": date}, now=lambda: NOW) == 60


def carrying(**fields):
    error = Exception("x")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


@table(
    ("fields", "expected"),
    [
        ({"retry_after": 2.5}, 2.5),
        ({"retry_after": 0}, 0),
        ({"retry_after": True}, None),
        ({"retry_after": -1}, None),
        ({"retry_after": float("inf")}, None),
        ({"retry_after": 10**400}, None),
        ({"headers": {"retry-after": "4"}}, 4),
        ({"response": SimpleNamespace(headers={"retry-after": "4"})}, 4),
        ({"response": SimpleNamespace(headers=None), "headers": {"retry-after": "5"}}, 5),
        ({"headers": "retry-after: 4"}, None),
    ],
)
def test_reads_the_wait_of_exceptions(fields, expected):
    assert retry_after(carrying(**fields)) == expected


@pytest.mark.slow
@given(st.text(max_size=40))
def test_from_headers_never_raises(value):
    found = from_headers({"retry-after": value, "retry-after-ms": value}, now=lambda: NOW)
    assert found is None or 0 <= found < float("inf")
