"""What a command that waits for its confirmation reads in the dead-letter topic, whoever wrote it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from switchgear_api.operate.command_result import Confirmation
from switchgear_schemas import Command, DeadLetter
from switchgear_schemas.settings import load_settings

SETTINGS = load_settings(topic_prefix="t.")
LETTER = DeadLetter(SETTINGS.topics.commands, 1, 7, 0, "too late", "worker")


@pytest.fixture
async def confirmation():
    made = Confirmation(SETTINGS, [Command(tool_name="search", verb="close", actor="ada")])
    yield made
    await made.stop()


def record(**fields):
    return SimpleNamespace(topic=SETTINGS.topics.dead, **({"key": b"k", "value": b"", "headers": ()} | fields))


async def test_a_retried_letters_tombstone_and_an_unrelated_record_are_skipped(confirmation):
    for odd in (
        record(value=None),
        record(headers=LETTER.headers()[:3]),
        record(headers=[(name, b"\xff") for name, _ in LETTER.headers()]),
        record(headers=[(name, None) for name, _ in LETTER.headers()]),
    ):
        confirmation._take(odd)
    assert confirmation._refused({1: 7}) is None
    confirmation._take(record(headers=LETTER.headers()))
    assert confirmation._refused({1: 7}) == LETTER
