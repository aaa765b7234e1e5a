"""A number for each living object, never given twice: ``id()`` is, as soon as the object is gone."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, Final

from switchgear.fork_safe import ForkSafe


class Tokens(ForkSafe):
    """Thread-safe. An object is not kept alive by its number, and need not be hashable."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()  # the garbage collector may run, and end an object, while this thread holds it
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, thing: Any) -> int:
        """The number of ``thing``.

        Raises:
            TypeError: its type takes no weak reference: nobody would know when it is gone.
        """
        name = id(thing)
        found = self._known.get(name)
        if found is not None and found[0]() is thing:
            return found[1]

        def gone(reference: weakref.ref[Any]) -> None:
            known = self._known.get(name)
            if known is not None and known[0] is reference:  # the next object at this place may have come already
                self._known.pop(name, None)

        with self._lock:
            found = self._known.get(name)
            if found is None or found[0]() is not thing:
                found = self._known[name] = (weakref.ref(thing, gone), next(self._numbers))
            return found[1]

    def forked(self) -> None:
        """In a child of a fork: its own lock; the numbers are as good here."""
        self._lock = threading.RLock()


token_of: Final = Tokens().of
"""The number of an object in this process."""
