from __future__ import annotations

from structlog.testing import capture_logs

from switchgear_schemas import DeadLetter
from switchgear_stream.log_throttle import LETTERS_EVERY_S, LetterLog

LETTER = DeadLetter("t", 0, 7, 0, "not JSON", "worker")


def test_the_first_letter_is_told_at_once_and_the_others_every_few_seconds_with_their_number():
    now = 100.0
    told = LetterLog(lambda: now)
    with capture_logs() as lines:
        for _ in range(1_000):
            told.add([LETTER])
        now += LETTERS_EVERY_S
        told.add([])
        told.add([LETTER, LETTER])
    assert [(line["event"], line["count"], line["last"]) for line in lines] == [
        ("dead_letters", 1, "t-0-7"), ("dead_letters", 1_001, "t-0-7"),
    ]  # fmt: skip
