"""Tables that adapt to the terminal: names stay whole, sentences wrap at words, times shorten, lesser columns go."""

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
MOST_LINES: Final = 4
"""Times shorten and lesser columns go before a sentence takes more lines than this."""


class Kind(Enum):
    """What gives way when the terminal is narrow."""

    FIGURE = "figure"  # as wide as its widest cell
    NAME = "name"  # whole up to NAME_WIDTH, folded beyond if the terminal is too narrow
    WORDS = "words"  # wrapped at words into what the others leave
    TIME = "time"  # relative and absolute where there is room, else relative


_GIVING_WAY: Final = (
    (Kind.WORDS, EASY_WORDS), (Kind.NAME, NAME_WIDTH), (Kind.WORDS, LEAST_WORDS), (Kind.NAME, LEAST_NAME),
)  # fmt: skip
"""Which kind of column gets narrower first, and the least width that it keeps."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: ``relative`` such as ``5 min ago``, and ``absolute`` with the date. ``absolute`` is empty where there is no time."""

    relative: str
    absolute: str = ""

    def __str__(self) -> str:
        return f"{self.relative} ({self.absolute})" if self.absolute else self.relative


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Those with the highest ``lesser`` go first where the width doesn't suffice; 0 always stays."""

    heading: str
    kind: Kind = Kind.FIGURE
    right: bool = False
    lesser: int = 0


def name(heading: str) -> Column:
    """Return a column of names."""
    return Column(heading, Kind.NAME)


def words(heading: str) -> Column:
    """Return a column of sentences. A table has one at most."""
    return Column(heading, Kind.WORDS)


def number(heading: str, lesser: int = 0) -> Column:
    """Return a column aligned right."""
    return Column(heading, right=True, lesser=lesser)


def time(heading: str, lesser: int = 0) -> Column:
    """Return a column of :class:`Moment` cells."""
    return Column(heading, Kind.TIME, lesser=lesser)


class ResponsiveTable:
    """Rows under columns, laid out for the width they are printed at.

    Cells are text and are printed literally: no ``[markup]``, no ``:emoji:`` (tool names have colons).
    """

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[list[Text | Moment]] = []

    def add(self, *cells: str | Text | Moment) -> None:
        """Add a row, one cell per column."""
        self._rows.append([Text(escaped(cell)) if isinstance(cell, str) else cell for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out for the width; rich calls this to print it."""
        layout = self._fit(options.max_width, console)
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
        for place, width in layout.widths.items():
            column = self._columns[place]
            folds = column.kind in (Kind.NAME, Kind.WORDS)
            table.add_column(
                Text(column.heading),
                justify="right" if column.right else "left",
                width=width,
                no_wrap=not folds,
                overflow="fold" if folds else "ellipsis",
            )
        for row in self._rows:
            table.add_row(*(_text(row[place], place in layout.absolute) for place in layout.widths))
        yield table

    def _fit(self, room: int, console: Console) -> _Layout:
        kept = list(range(len(self._columns)))
        absolute = [place for place in kept if self._columns[place].kind is Kind.TIME]
        while True:
            natural = {place: self._natural(place, place in absolute) for place in kept}
            layout = _Layout(self._widths(natural, room), frozenset(absolute))
            if self._least(natural, whole_names=bool(absolute)) <= room and self._lines(layout, console) <= MOST_LINES:
                return layout
            lesser = max(kept, key=lambda each: self._columns[each].lesser)
            if absolute:
                absolute.pop()
            elif self._columns[lesser].lesser:
                kept.remove(lesser)
            else:
                return layout

    def _widths(self, natural: dict[int, int], room: int) -> dict[int, int]:
        widths = dict(natural)
        excess = _total(widths.values()) - room
        for kind, least in _GIVING_WAY:
            for place in (each for each in widths if self._columns[each].kind is kind):
                cut = max(0, min(excess, widths[place] - least))
                widths[place] -= cut
                excess -= cut
        return widths

    def _least(self, natural: dict[int, int], *, whole_names: bool) -> int:
        limits = {Kind.WORDS: EASY_WORDS} if whole_names else {Kind.NAME: NAME_WIDTH, Kind.WORDS: GOOD_WORDS}
        return _total(min(width, limits.get(self._columns[place].kind, width)) for place, width in natural.items())

    def _lines(self, layout: _Layout, console: Console) -> int:
        """Return how many lines the longest sentence takes."""
        sentences = [
            (place, layout.widths[place]) for place in layout.widths if self._columns[place].kind is Kind.WORDS
        ]
        cells = ((_text(row[place]), width) for row in self._rows for place, width in sentences)
        long = (cell.wrap(console, width) for cell, width in cells if cell.cell_len > width)
        return max(map(len, long), default=1)

    def _natural(self, place: int, absolute: bool) -> int:
        cells = (_text(row[place], absolute).cell_len for row in self._rows)
        return max(1, len(self._columns[place].heading), *cells) if self._rows else len(self._columns[place].heading)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The kept columns with their widths, in order, and the columns of times that show the date too."""

    widths: dict[int, int]
    absolute: frozenset[int]


def _text(cell: Text | Moment, absolute: bool = False) -> Text:
    if isinstance(cell, Moment):
        return Text(str(cell) if absolute else cell.relative)
    return cell


def _total(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + GAP * (len(listed) - 1)
