"""Exceptions of databases are classified: Redis by type, SQL by SQLSTATE and by the names of PEP 249."""

from __future__ import annotations

import pytest
import redis

from switchgear.classify import Classification, classify
from tests.support.table import table

pytestmark = pytest.mark.slow


@table(
    ("error", "expected"),
    [
        (redis.TimeoutError(), "timeout"),
        (redis.ConnectionError(), "transport"),
        (redis.BusyLoadingError(), "server"),
        (redis.AuthenticationError(), "auth"),
        (redis.ReadOnlyError(), "server"),
        (redis.ResponseError(), "invalid_input"),
        (redis.DataError(), "invalid_input"),
    ],
    ids=repr,
)
def test_classifies_errors_of_redis(error, expected):
    assert classify(error) == Classification(expected)


def test_unreachable_redis_has_class_transport(unreachable):
    port = int(unreachable.rpartition(":")[2])
    with (
        redis.Redis(port=port, host="127.0.0.1", retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0)) as client,
        pytest.raises(redis.ConnectionError) as found,
    ):
        client.ping()
    assert classify(found.value) == Classification("transport")


def of(module, *names, **fields):
    """Return an exception whose bases have these names, the last one first."""
    kind = Exception
    for name in reversed(names):
        kind = type(name, (kind,), {"__module__": module})
    error = kind("m")
    for field, value in fields.items():
        setattr(error, field, value)
    return error


@table("field", ["sqlstate", "pgcode"])
@table(
    ("state", "expected"),
    [
        ("08006", "transport"),
        ("22P02", "invalid_input"),
        ("23505", "invalid_input"),
        ("28P01", "auth"),
        ("40001", "tool"),
        ("42501", "auth"),
        ("42P01", "invalid_input"),
        ("53300", "server"),
        ("57014", "timeout"),
        ("57P01", "server"),
        ("XX000", "server"),
    ],
)
def test_classifies_an_sqlstate(field, state, expected):
    assert classify(of("psycopg.errors", "SomeError", **{field: state})) == Classification(expected)


@table("module", ["psycopg", "psycopg2"])
@table(
    ("name", "expected"),
    [("OperationalError", "transport"), ("InterfaceError", "transport"), ("ProgrammingError", "invalid_input")],
)
def test_type_decides_without_an_sqlstate(module, name, expected):
    assert classify(of(module, name, "Error", sqlstate=None)) == Classification(expected)


def test_type_decides_for_an_unknown_sqlstate():
    assert classify(of("psycopg", "OperationalError", sqlstate="99999")) == Classification("transport")
    assert classify(of("my.tools", "Failure", sqlstate="east!")) == Classification("unknown")


def test_error_of_sqlalchemy_has_the_class_of_its_origin():
    within = of("psycopg", "OperationalError", sqlstate="57014")
    assert classify(of("sqlalchemy.exc", "OperationalError", "DBAPIError", orig=within)) == Classification("timeout")
    assert classify(of("sqlalchemy.exc", "TimeoutError", "SQLAlchemyError")) == Classification("timeout")
