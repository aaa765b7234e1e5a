"""Every living object has one number that no other object ever gets."""

from __future__ import annotations

import gc
import threading

import pytest

from switchgear.caching.call_key import Tokens


class Thing:
    pass


class Unhashable:
    __hash__ = None


def test_object_keeps_its_number_and_no_two_share_one():
    tokens = Tokens()
    things = [Thing() for _ in range(100)]
    numbers = [tokens.of(thing) for thing in things]
    assert [tokens.of(thing) for thing in things] == numbers
    assert len(set(numbers)) == 100


def test_number_is_never_reused_although_addresses_are():
    tokens = Tokens()
    seen = [(id(thing), tokens.of(thing)) for thing in (Thing() for _ in range(1_000))]
    assert len({address for address, _ in seen}) < 1_000
    assert len({number for _, number in seen}) == 1_000


def test_forgets_an_object_that_was_collected():
    tokens = Tokens()
    thing = Thing()
    thing.itself = thing
    tokens.of(thing)
    assert len(tokens) == 1
    del thing
    gc.collect()
    assert len(tokens) == 0


def test_object_needs_weak_references_but_no_hash():
    tokens = Tokens()
    assert tokens.of(Unhashable()) != tokens.of(Unhashable())
    with pytest.raises(TypeError, match="weak reference"):
        tokens.of(3)


def test_threads_get_the_same_numbers():
    tokens, things = Tokens(), [Thing() for _ in range(200)]
    found: list[list[int]] = []

    def work():
        for _ in range(20):
            tokens.of(Thing())
        found.append([tokens.of(thing) for thing in things])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(each == found[0] for each in found)
    assert len(tokens) == 200
