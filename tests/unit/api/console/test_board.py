"""When the numbers of the page `now` are read again."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from switchgear_api.console.board import MOST_AGE_S, REFRESH_S, Boards, Snapshot
from switchgear_schemas.settings import Settings


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> Boards:
    """Boards whose numbers are made without a store. ``age(seconds)`` makes what is kept older."""

    async def compute(self: Boards, *_: Any, **__: Any) -> Snapshot:
        return Snapshot({"tools": []}, SimpleNamespace(), 0.0, time.monotonic())  # type: ignore[arg-type]

    monkeypatch.setattr(Boards, "_compute", compute)
    return Boards(SimpleNamespace(embedded=False), SimpleNamespace(), SimpleNamespace(), Settings())  # type: ignore[arg-type]


def make_older(boards: Boards, seconds: float) -> None:
    for key, held in boards._snapshots.items():
        boards._snapshots[key] = Snapshot(held.content, held.figures, held.took_s, held.at - seconds)


async def test_numbers_are_read_again_when_they_are_two_seconds_old(boards):
    first = await boards.snapshot(60, None)
    assert await boards.snapshot(60, None) is first
    make_older(boards, REFRESH_S)
    assert await boards.snapshot(60, None) is not first


async def test_page_does_not_wait_for_numbers_that_a_stream_renews_unless_they_are_ten_seconds_old(boards):
    boards.renewed.add((60, None, True))
    await boards.snapshot(60, None)
    make_older(boards, REFRESH_S + 1)
    older = await boards.snapshot(60, None)
    assert older.stale
    assert await boards.snapshot(60, None, renew=True) is not older, "the stream itself renews them"
    make_older(boards, MOST_AGE_S)
    assert not (await boards.snapshot(60, None)).stale


async def test_operators_change_is_in_the_next_answer_even_while_a_stream_renews_the_numbers(boards):
    boards.renewed.add((60, None, True))
    first = await boards.snapshot(60, None)
    boards.forget()
    assert await boards.snapshot(60, None) is not first
