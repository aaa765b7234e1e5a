"""What is on its way to Kafka: a record of its own, or a run of plain ones.

Nearly all that an emitter sends are successes, which nobody waits for and of which nothing is known but their bytes. A struct for
each would cost as much as sending them (0.3 of 1.2 µs an event in the background, measured), so those of one tool stay together
as long as all is well. What becomes a record's own matter (a mark, a place on disk, a refusal) makes single records of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from switchgear.emitter.spool.place import Place
from switchgear_schemas.errors import SwitchgearError

Answer = Callable[[str | None], None]
"""Told once about its record: None when it was acknowledged, else why it was refused."""


class Record(msgspec.Struct, eq=False):
    """One record on its way. ``answer`` is None where nobody waits for it; ``place`` is where it lies in the spool.

    A struct is made in a quarter of a class's time, and the collector does not look at one that holds plain values alone.
    """

    tool: str
    value: bytes
    answer: Answer | None = None
    marked: bool = False
    """Kafka may have it already."""
    place: Place | None = None

    @property
    def key(self) -> bytes:
        """Of the record in Kafka."""
        return self.tool.encode()


class Run(msgspec.Struct, eq=False):
    """Unmarked records of one tool, oldest first, at least one; nobody waits for them, and they lie nowhere else."""

    tool: str
    values: list[bytes]


Parcel = Record | Run


def check_record(number: int, tool: object, value: object) -> None:
    """Refuse what Kafka can't be given; ``number`` is its place in what was submitted.

    Raises:
        SwitchgearError: naming it.
    """
    if not isinstance(tool, str) or not isinstance(value, bytes):
        kinds = f"({type(tool).__name__}, {type(value).__name__})"
        raise SwitchgearError(
            f"Record {number} is {kinds}.", hint="Give a tool's name and the encoded bytes: (str, bytes)."
        )
    try:
        tool.encode()
    except UnicodeEncodeError:
        raise SwitchgearError(
            f"The tool's name of record {number} is no text: {tool!r}.", hint="Give one that UTF-8 can hold."
        ) from None


def count(parcels: Iterable[Parcel]) -> int:
    """How many records these are."""
    return sum(len(each.values) if isinstance(each, Run) else 1 for each in parcels)


def singles(parcels: Iterable[Parcel]) -> list[Record]:
    """The same in the same order, each a record of its own; those that are already stay themselves."""
    found: list[Record] = []
    for each in parcels:
        if isinstance(each, Run):
            found += [Record(each.tool, value) for value in each.values]
        else:
            found.append(each)
    return found
