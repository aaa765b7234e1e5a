"""Equal parameters hash equally, under a key, and nothing else shows."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from switchgear.caching.call_key import FormlessError, parameters_hash

KEY = b"a deployment's secret"


def test_equal_parameters_hash_equally_whatever_the_order_of_keywords():
    assert parameters_hash(KEY, ["x", 1], {"a": 1, "b": 2}) == parameters_hash(KEY, ["x", 1], {"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(["x", 2], {}), ([1, "x"], {}), (["x"], {"a": 1}), ([], {}), ([["x", 1]], {}), (["x", "1"], {})],
)
def test_different_parameters_hash_differently(args, kwargs):
    assert parameters_hash(KEY, ["x", 1]) != parameters_hash(KEY, args, kwargs)


def test_another_key_gives_another_hash():
    assert parameters_hash(KEY, ["x"]) != parameters_hash(b"another", ["x"])


def test_the_hash_is_the_same_in_another_process():
    code = (
        f"from switchgear.caching.call_key import parameters_hash; print(parameters_hash({KEY!r}, ['x', {{'b': 1}}]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert other.stdout.strip() == parameters_hash(KEY, ["x", {"b": 1}])


def test_the_hash_shows_nothing_but_32_hexadecimal_characters():
    found = parameters_hash(KEY, ["a password"], {"when": datetime(2026, 1, 1, tzinfo=UTC)})
    assert len(found) == 32
    int(found, 16)


def test_a_value_that_can_not_be_told_from_others_is_refused_whatever_its_repr():
    class Query:
        def __repr__(self):
            return "Query()"

    with pytest.raises(FormlessError, match=r"type .*Query can't be told from others like it\. Give parameters="):
        parameters_hash(KEY, [Query()])


@pytest.mark.parametrize("key", [b"", b"x" * 65])
def test_a_key_that_protects_nothing_is_refused(key):
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        parameters_hash(key, ["x"])
