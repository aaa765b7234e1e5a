"""ResponsiveTable: a table that keeps names whole, wraps sentences at words, and leaves out lesser columns where it must."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from switchgear_schemas.visible import escaped

GAP: Final = 2
NAME_WIDTH: Final = 45
"""Up to this many columns a name is never folded; lesser columns go and sentences wrap first."""
LEAST_NAME: Final = 12
EASY_WORDS: Final = 30
GOOD_WORDS: Final = 24
"""Lesser columns go before a sentence gets less than this."""
LEAST_WORDS: Final = 12


class Kind(Enum):
    """What gives way when the terminal is narrow."""

    FIGURE = "figure"  # as wide as its widest cell
    NAME = "name"  # whole up to NAME_WIDTH, folded beyond where there is no room
    WORDS = "words"  # wrapped at words into what the others leave


_GIVING_WAY: Final = (
    (Kind.WORDS, EASY_WORDS), (Kind.NAME, NAME_WIDTH), (Kind.WORDS, LEAST_WORDS), (Kind.NAME, LEAST_NAME),
)  # fmt: skip
"""Who gives up columns first, and down to how many."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Those with the highest ``lesser`` go first where 100 columns don't suffice; 0 always stays."""

    heading: str
    kind: Kind = Kind.FIGURE
    right: bool = False
    lesser: int = 0


def name(heading: str) -> Column:
    """A column of names."""
    return Column(heading, Kind.NAME)


def words(heading: str) -> Column:
    """A column of sentences; at most one a table."""
    return Column(heading, Kind.WORDS)


def number(heading: str, lesser: int = 0) -> Column:
    """A column aligned right."""
    return Column(heading, right=True, lesser=lesser)


class ResponsiveTable:
    """Rows under columns, laid out for the width they are printed at.

    Cells are text and are printed literally: no ``[markup]``, no ``:emoji:`` (tool names have colons).
    """

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """Add a row, a cell a column."""
        self._rows.append([Text(escaped(cell)) if isinstance(cell, str) else cell for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich calls to print it."""
        kept, widths = self._fit(options.max_width)
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
        for place in kept:
            column = self._columns[place]
            table.add_column(
                Text(column.heading),
                justify="right" if column.right else "left",
                width=widths[place],
                no_wrap=column.kind is Kind.FIGURE,
                overflow="ellipsis" if column.kind is Kind.FIGURE else "fold",
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in kept))
        yield table

    def _fit(self, room: int) -> tuple[list[int], dict[int, int]]:
        natural = {place: self._natural(place) for place in range(len(self._columns))}
        kept = list(natural)
        while self._least(kept, natural) > room and (lesser := self._least_needed(kept)) is not None:
            kept.remove(lesser)
        widths = {place: natural[place] for place in kept}
        excess = _total(widths.values()) - room
        for kind, least in _GIVING_WAY:
            for place in (each for each in kept if self._columns[each].kind is kind):
                cut = max(0, min(excess, widths[place] - least))
                widths[place] -= cut
                excess -= cut
        return kept, widths

    def _least(self, kept: list[int], natural: dict[int, int]) -> int:
        limits = {Kind.NAME: NAME_WIDTH, Kind.WORDS: GOOD_WORDS}
        return _total(min(natural[place], limits.get(self._columns[place].kind, natural[place])) for place in kept)

    def _least_needed(self, kept: list[int]) -> int | None:
        place = max(kept, key=lambda each: self._columns[each].lesser)
        return place if self._columns[place].lesser else None

    def _natural(self, place: int) -> int:
        cells = (row[place].cell_len for row in self._rows)
        return max(1, len(self._columns[place].heading), *cells) if self._rows else len(self._columns[place].heading)


def _total(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + GAP * (len(listed) - 1)
