"""Every living object has one number that no other object ever gets."""

from __future__ import annotations

import gc
import threading

import pytest

from switchgear.caching.call_key import token_of
from tests.support.limits import HAPPEN_S


class Thing:
    pass


class Unhashable:
    __hash__ = None


def test_object_keeps_its_number_and_no_two_share_one():
    things = [Thing() for _ in range(100)]
    numbers = [token_of(thing) for thing in things]
    assert [token_of(thing) for thing in things] == numbers
    assert len(set(numbers)) == 100


def test_number_is_never_reused_although_addresses_are():
    seen = [(id(thing), token_of(thing)) for thing in (Thing() for _ in range(1_000))]
    assert len({address for address, _ in seen}) < 1_000
    assert len({number for _, number in seen}) == 1_000


def test_number_of_an_object_in_a_reference_cycle_is_never_reused():
    seen = []
    for _ in range(200):
        thing = Thing()
        thing.itself = thing
        seen.append((id(thing), token_of(thing)))
        del thing
        gc.collect(0)
    assert len({address for address, _ in seen}) < 200
    assert len({number for _, number in seen}) == 200


def test_object_needs_weak_references_but_no_hash():
    one, other = Unhashable(), Unhashable()
    assert token_of(one) != token_of(other)
    with pytest.raises(TypeError, match="weak reference"):
        token_of(3)


def test_threads_get_the_same_numbers():
    things = [Thing() for _ in range(200)]
    found: list[list[int]] = []

    def work():
        for _ in range(20):
            token_of(Thing())
        found.append([token_of(thing) for thing in things])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert len(found) == 8
    assert all(each == found[0] for each in found)
