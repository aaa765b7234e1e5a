"""Equal parameters have the same hash with the same key, and the hash shows nothing else."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from switchgear.caching.call_key import UnhashableParameterError, parameters_hash
from tests.support.limits import READY_S
from tests.support.table import table

KEY = b"a deployment's secret"


def test_order_of_keywords_does_not_change_the_hash():
    assert parameters_hash(KEY, ["x", 1], {"a": 1, "b": 2}) == parameters_hash(KEY, ["x", 1], {"b": 2, "a": 1})


@table(
    ("args", "kwargs"),
    [(["x", 2], {}), ([1, "x"], {}), (["x"], {"a": 1}), ([], {}), ([["x", 1]], {}), (["x", "1"], {})],
)
def test_different_parameters_have_different_hashes(args, kwargs):
    assert parameters_hash(KEY, ["x", 1]) != parameters_hash(KEY, args, kwargs)


def test_another_key_gives_another_hash():
    assert parameters_hash(KEY, ["x"]) != parameters_hash(b"another", ["x"])


@pytest.mark.slow
def test_hash_is_the_same_in_another_process():
    code = (
        f"from switchgear.caching.call_key import parameters_hash; print(parameters_hash({KEY!r}, ['x', {{'b': 1}}]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S)
    assert other.stdout.strip() == parameters_hash(KEY, ["x", {"b": 1}])


def test_hash_has_32_hexadecimal_characters():
    found = parameters_hash(KEY, ["a password"], {"when": datetime(2026, 1, 1, tzinfo=UTC)})
    assert len(found) == 32
    int(found, 16)


def test_rejects_an_object_of_an_unknown_class():
    class Query:
        def __repr__(self):
            return "Query()"

    with pytest.raises(UnhashableParameterError, match=r"type .*Query has no hash, .* Give parameters="):
        parameters_hash(KEY, [Query()])
