"""Labels of metrics whose values callers invent."""

from __future__ import annotations

from typing import Final

OTHER: Final = "(other)"
"""The value of a label that stands for all values beyond the limit."""


class BoundedLabels:
    """The values of one label: the first ``most`` by name, the others as :data:`OTHER`, so that metrics don't grow without end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        """Return the label for a value."""
        if len(self._known) < self._most:
            self._known.add(value)
        return value if value in self._known else OTHER
