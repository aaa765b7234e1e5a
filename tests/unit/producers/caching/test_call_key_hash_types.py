"""Different parameters have different hashes, equal ones have the same hash, and unknown types have none."""

from __future__ import annotations

import array
import enum
import io
import itertools
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, HttpUrl, SecretStr

from switchgear.caching.call_key import UnhashableParameterError, parameters_hash
from tests.support.limits import READY_S
from tests.support.table import table

pytestmark = pytest.mark.slow

KEY = b"a deployment's secret"


def hashed(value: Any) -> str:
    return parameters_hash(KEY, [value])


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    RED = "red"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class ByCity:
    name: Any


@dataclass(frozen=True, slots=True)
class ByUser:
    name: Any


class Model(BaseModel):
    name: Any = None
    tenant: str = Field(default="", repr=False)


class Other(BaseModel):
    name: Any = None
    tenant: str = ""


class Record(msgspec.Struct):
    name: Any


@attrs.define
class Slotted:
    name: Any


Pair = namedtuple("Pair", "one two")  # noqa: PYI024 - users have these
OtherPair = namedtuple("OtherPair", "one two")  # noqa: PYI024


ALL_DIFFERENT = [
    None, float("inf"), float("-inf"), float("nan"), "null", "inf",
    {1: 2}, {"1": 2}, {1.0: 1}, {"1.0": 1}, {True: 1}, {None: 1}, {"null": 1},
    b"abc", bytearray(b"abc"), "YWJj", "616263",
    date(2024, 1, 1), "2024-01-01", datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, fold=1),  # noqa: DTZ001
    datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Oslo")), datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Rome")),
    time(1), timedelta(1), timezone(timedelta(hours=1)),
    Decimal("1.5"), "1.5", 1.5, Fraction(3, 2), 1.5 + 0j,
    1, 1.0, True, "1", 0, False, -0.0, 0.0, 2**70, "",
    (1,), [1], {1}, frozenset([1]), range(1), [[1]], [(1,)],
    ByCity("x"), ByUser("x"), {"name": "x"}, Model(name="x"), Other(name="x"), Record("x"), Slotted("x"),
    Model(name="x", tenant="a"), Model(name="x", tenant="b"), Model(), Model(name=None),
    SecretStr("ana"), SecretStr("bob"), "ana", ByCity(SecretStr("ana")), ByCity(SecretStr("bob")),
    Colour.RED, Word.RED, "red", "RED", Rights.READ, Rights.READ | Rights.WRITE, Rights(0),
    uuid.UUID(int=1), str(uuid.UUID(int=1)), Path("a"), PurePosixPath("a"), "a", HttpUrl("https://a.example/"),
    Pair(1, 2), OtherPair(1, 2), (1, 2), [1, 2], {"a": 1},
    "x", np.array([1]), np.array([1], "int8"), np.int64(1), np.float64(1.5),
    np.array([[1]]), np.array(["2024-01-01"], "M8[D]"), np.zeros(5000), ...,
]  # fmt: skip


def test_values_of_different_types_have_different_hashes():
    seen: dict[str, Any] = {}
    for value in ALL_DIFFERENT:
        found = hashed(value)
        assert found not in seen, f"{value!r} looks like {seen.get(found)!r}"
        seen[found] = value


def test_difference_deep_inside_changes_the_hash():
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 7
    assert hashed({"a": [ByCity((one,))]}) != hashed({"a": [ByCity((other,))]})


@table(
    "make",
    [
        lambda: ByCity("x"),
        lambda: ByUser(("x", 1)),
        lambda: Model(name={1, 2}, tenant="a"),
        lambda: Record(b"x"),
        lambda: Slotted({}),
        lambda: SecretStr("ana"),
        lambda: Pair(1, None),
        lambda: np.arange(6).reshape(2, 3),
        lambda: datetime(2024, 1, 1, tzinfo=UTC),
        lambda: HttpUrl("https://a.example/x"),
    ],
)
def test_equal_values_have_the_same_hash(make):
    assert hashed(make()) == hashed(make())


def test_path_has_the_same_hash_after_its_parts_were_read():
    asked = Path("/a/b.c")
    assert (hash(asked), asked.suffix, asked.parent) != ()
    assert hashed(asked) == hashed(Path("/a/b.c"))


def test_order_of_sets_and_dicts_does_not_change_the_hash():
    assert hashed({0, 8}) == hashed({8, 0})
    assert hashed(frozenset("abc")) == hashed(frozenset("cba"))
    assert hashed({1: 2, 3: 4}) == hashed({3: 4, 1: 2})
    assert hashed({"a": 1, "b": 2}) == hashed({"b": 2, "a": 1})


@pytest.mark.slow
def test_hash_of_every_type_is_the_same_in_another_process():
    values = "{8, 0, 'x'}, {1: (2,)}, b'x', float('inf'), 1.5j, frozenset('abc')"
    code = (
        "from switchgear.caching.call_key import parameters_hash\n"
        f"print(*[parameters_hash({KEY!r}, [each]) for each in ({values},)])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=READY_S)
    assert other.stdout.split() == [
        hashed(each) for each in ({8, 0, "x"}, {1: (2,)}, b"x", float("inf"), 1.5j, frozenset("abc"))
    ]


class Plain:
    """What makes two of these equal isn't known."""


class WithRepr:
    """Its repr may leave something out."""

    def __repr__(self):
        return "WithRepr()"


class Text(str):
    """It may hold more than its letters."""

    __slots__ = ("origin",)


class Undecorated(ByCity):
    """It may hold more than the fields."""


@dataclass
class Holding:
    inside: Any = field(default_factory=Plain, repr=False, compare=False)


@table(
    "value",
    [
        object(),
        Plain(),
        WithRepr(),
        Text("x"),
        Undecorated("x"),
        memoryview(b"x"),
        array.array("b", [1]),
        len,
        lambda: 1,
        Plain,
        ByCity,
        Model,
        io.BytesIO(b"x"),
        iter([1]),
        (each for each in ()),
        itertools.count(),
        defaultdict(list),
        deque([1]),
        Counter("a"),
        OrderedDict(a=1),
        Holding(),
        [{"a": (Plain(),)}],
        np.array([Plain()], dtype=object),
        np.ma.array([1, 2], mask=[True, False]),
        pd.Timestamp("2024-01-01"),
        pd.DataFrame({"a": [1]}),
        Plain().__init__,
        sys,
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_of_an_unknown_type_has_no_hash(value):
    with pytest.raises(UnhashableParameterError, match="Give parameters="):
        hashed(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANYTHING = st.recursive(
    JSON | st.binary() | st.decimals(allow_nan=False) | st.dates() | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(ANYTHING, ANYTHING)
def test_different_values_have_different_hashes(one, other):
    if repr(one) == repr(other):
        assert hashed(one) == hashed(other)
    elif one != other:
        assert hashed(one) != hashed(other)
