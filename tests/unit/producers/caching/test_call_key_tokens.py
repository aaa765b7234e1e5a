"""Every living object has one number, and no other object ever has it."""

from __future__ import annotations

import gc
import threading

import pytest

from switchgear.caching.call_key import Tokens


class Thing:
    pass


class Unhashable:
    __hash__ = None


def test_an_object_keeps_its_number_and_no_two_have_the_same():
    tokens = Tokens()
    things = [Thing() for _ in range(100)]
    numbers = [tokens.of(thing) for thing in things]
    assert [tokens.of(thing) for thing in things] == numbers
    assert len(set(numbers)) == 100


def test_a_number_is_never_given_again_although_addresses_are():
    tokens = Tokens()
    seen = [(id(thing), tokens.of(thing)) for thing in (Thing() for _ in range(1_000))]
    assert len({address for address, _ in seen}) < 1_000
    assert len({number for _, number in seen}) == 1_000


def test_an_object_that_is_gone_is_forgotten_also_one_of_a_cycle():
    tokens = Tokens()
    thing = Thing()
    thing.itself = thing
    tokens.of(thing)
    assert len(tokens) == 1
    del thing
    gc.collect()
    assert len(tokens) == 0


def test_it_need_not_be_hashable_but_must_take_a_weak_reference():
    tokens = Tokens()
    assert tokens.of(Unhashable()) != tokens.of(Unhashable())
    with pytest.raises(TypeError, match="weak reference"):
        tokens.of(3)


def test_threads_agree_on_the_numbers():
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
