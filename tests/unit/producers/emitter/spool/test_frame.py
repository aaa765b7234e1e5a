"""Frames survive being cut and damaged: what is whole is read, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from switchgear.emitter.spool.frame import LARGEST, MAGIC, frame, parse

records = st.lists(st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=60), st.booleans()), max_size=12)


def framed(found) -> list[bytes]:
    return [frame(tool.encode(), value, sent=sent) for tool, value, sent in found]


def read(data: bytes, **options):
    return [entry[:3] for entry in parse(data, most=1_000, last=True, **options).entries]


@settings(deadline=None)
@given(records)
def test_what_was_framed_is_read_back(found) -> None:
    data = b"".join(framed(found))
    parsed = parse(data, most=1_000, last=True)
    assert [entry[:3] for entry in parsed.entries] == found
    assert (parsed.consumed, parsed.damaged) == (len(data), 0)


@settings(deadline=None)
@given(records, st.data())
def test_a_cut_loses_the_torn_record_alone(found, data) -> None:
    frames = framed(found)
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    kept, at = 0, 0
    while kept < len(frames) and at + len(frames[kept]) <= cut:
        at += len(frames[kept])
        kept += 1
    parsed = parse(whole[:cut], most=1_000, last=True)
    assert [entry[:3] for entry in parsed.entries] == found[:kept]
    assert parsed.damaged == (cut > at)


@given(records.filter(bool), st.data())
@settings(max_examples=200, deadline=None)
def test_damage_loses_the_damaged_records_alone(found, data) -> None:
    """Whatever is written over a stretch: every record outside it is read, in order."""
    frames = framed(found)
    whole = bytearray(b"".join(frames))
    start = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=40).filter(lambda each: MAGIC not in each))
    whole[start : start + len(junk)] = junk[: len(whole) - start]
    untouched, at = [], 0
    for record, bytes_ in zip(found, frames, strict=True):
        end = at + len(bytes_)
        if bytes(whole[at:end]) == bytes_:
            untouched.append(record)
        at = end
    assert read(bytes(whole)) == untouched


@settings(deadline=None)
@given(records, st.integers(1, 200))
def test_reading_in_pieces_gives_the_same(found, size) -> None:
    whole = b"".join(framed(found))
    at, entries, width = 0, [], size
    while at < len(whole):
        piece = whole[at : at + width]
        parsed = parse(piece, most=3, last=at + len(piece) >= len(whole))
        entries += [entry[:3] for entry in parsed.entries]
        width = size if parsed.consumed else width + size
        at += parsed.consumed
    assert entries == found


def test_a_length_that_no_record_has_is_damage_and_not_waited_for() -> None:
    good = frame(b"t", b"x", sent=False)
    broken = MAGIC + b"\0\0\0\0" + (LARGEST + 1).to_bytes(4, "little")
    parsed = parse(broken + b"." * 20 + good, most=10, last=False)
    assert [entry.value for entry in parsed.entries] == [b"x"]
    assert parsed.damaged == 1


def test_no_more_than_asked_for_are_read() -> None:
    data = b"".join(frame(b"t", bytes([number]), sent=False) for number in range(10))
    parsed = parse(data, most=4, last=True)
    assert [entry.value[0] for entry in parsed.entries] == [0, 1, 2, 3]
    assert parse(data[parsed.consumed :], most=1, last=True).entries[0].value == bytes([4])
