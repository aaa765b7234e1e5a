"""A dictionary with a bound, for what callers and clients name."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dictionary of at most ``most`` entries. A new entry replaces the one that was set longest ago.

    Setting a key again makes its entry the newest. Reading it doesn't: call ``move_to_end(key)`` for that. Not thread-safe.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Set an entry. Return the entry that had to make room, None if there was room."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        return self.popitem(last=False) if len(self) > self.most else None

    __setitem__ = put  # type: ignore[assignment]  # the statement ignores what it returns
