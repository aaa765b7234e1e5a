"""What an object caches in itself doesn't change the hash. Fields always do."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from switchgear import CachePolicy, Switchgear
from switchgear.caching.call_key import parameters_hash
from tests.support.table import table


def hashed(value: Any) -> str:
    return parameters_hash(b"a deployment's secret", [value])


class Words:
    """A base class with a cached property."""

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()


@dataclasses.dataclass(frozen=True)
class OfDataclass(Words):
    text: str


@attrs.define
class OfAttrs:
    text: str

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()


@attrs.frozen(cache_hash=True)
class Hashed:
    text: str


@attrs.frozen(cache_hash=True, slots=False)
class HashedInDict(Words):
    text: str


class OfPydantic(pydantic.BaseModel):
    text: str

    @pydantic.computed_field
    @cached_property
    def words(self) -> list[str]:
        return self.text.split()


class OfMsgspec(msgspec.Struct, dict=True):
    text: str

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()


@table("kind", [OfDataclass, OfAttrs, OfPydantic, OfMsgspec, HashedInDict])
def test_cached_property_does_not_change_the_hash(kind):
    asked = kind("a b") if kind is not OfPydantic else kind(text="a b")
    before = hashed(asked)
    assert asked.words == ["a", "b"]
    assert hashed(asked) == before
    assert hashed(kind("a") if kind is not OfPydantic else kind(text="a")) != before


@pytest.mark.parametrize("kind", [Hashed, HashedInDict])
def test_cached_hash_of_attrs_does_not_change_the_hash(kind):
    asked = kind("a")
    before = hashed(asked)
    assert {asked}
    assert hashed(asked) == before != hashed(kind("b"))


def test_hash_computes_no_cached_property():
    assert hashed(Refusing("a")) == hashed(Refusing("a"))


@attrs.define
class Refusing:
    text: str

    @cached_property
    def words(self) -> list[str]:
        raise RuntimeError("not now")


@dataclasses.dataclass(slots=True)
class Slotted:
    held: Any


def test_slot_may_hold_an_array():
    assert hashed(Slotted(np.zeros(2))) == hashed(Slotted(np.zeros(2))) != hashed(Slotted(np.ones(2)))


# -- fields ----------------------------------------------------------------------------------


@dataclasses.dataclass
class FieldOfDataclass(Words):
    words: list[str]


@attrs.define(slots=False)
class FieldOfAttrs(Words):
    words: list[str]


class ModelWithWords(pydantic.BaseModel):
    @cached_property
    def words(self) -> list[str]:
        return ["cached"]


with pytest.warns(UserWarning, match="shadows an attribute"):

    class FieldOfPydantic(ModelWithWords):
        words: list[str]


@pytest.mark.parametrize("kind", [FieldOfDataclass, FieldOfAttrs, FieldOfPydantic])
def test_field_with_the_name_of_a_cached_property_counts(kind):
    assert hashed(kind(words=["a"])) == hashed(kind(words=["a"])) != hashed(kind(words=["b"]))


# -- pydantic's models: what == compares ------------------------------------------------------------------------------


class Query(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    text: str
    limit: int = 3
    _tenant: str = ""


def of_tenant(tenant):
    made = Query(text="a")
    made._tenant = tenant
    return made


def test_model_with_an_explicit_default_differs_from_one_without():
    """They are equal, but a tool may send ``model_dump(exclude_unset=True)``."""
    assert Query(text="a") == Query(text="a", limit=3)
    assert len({hashed(Query(text="a")), hashed(Query(text="a", limit=3)), hashed(Query(text="a", limit=4))}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: Query(text="a"), lambda: Query(text="a", page=1)),
        (lambda: Query(text="a", page=1), lambda: Query(text="a", page=2)),
        (lambda: Query(text="a", page=None), lambda: Query(text="a")),
        (lambda: of_tenant("ana"), lambda: of_tenant("bob")),
    ],
)
def test_extras_and_private_attributes_change_the_hash(one, other):
    assert one() != other()
    assert hashed(one()) == hashed(one()) != hashed(other())


# -- in a guard -------------------------------------------------------------------------------------------------------


def test_object_is_the_same_call_after_the_tool_used_it():
    calls = []

    @Switchgear.local().guard("search", cache=CachePolicy(ttl_s=60))
    def search(query):
        calls.append(query)
        return query.words

    query = OfDataclass("a b")
    assert search(query) == search(query) == search(OfDataclass("a b")) == ["a", "b"]
    assert len(calls) == 1
