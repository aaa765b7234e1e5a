"""Reporters: how many distinct processes were seen within the window, exact up to a limit, in memory of that limit.

One bad node must not close a tool to the good ones (App-vNext/Polly#287). To answer "were there at least m?" it is
enough to keep the m processes seen last: if the oldest of them has left the window, fewer than m are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

LONGEST_NAME: Final = 64
"""Characters of a reporter's name that are kept; foreign emitters choose theirs."""
_HASHED: Final = 16
"""Of these, hexadecimal digits of a hash: processes of one node differ at the end of the name, not at its beginning."""


def bounded(name: str) -> str:
    """``name`` where it is short enough; else its beginning and a hash of all of it, the same in every process."""
    if len(name) <= LONGEST_NAME:
        return name
    from hashlib import blake2b  # noqa: PLC0415 - takes 5 ms to import, and a local circuit counts no reporters

    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASHED // 2).hexdigest()
    return f"{name[: LONGEST_NAME - _HASHED - 1]}#{digest}"


class Reporters:
    """The last ``limit`` distinct reporters, each with the stamp (pane or call number) at which it was last seen."""

    __slots__ = ("limit", "seen")

    def __init__(self, limit: int, seen: Iterable[tuple[str, int]] = ()) -> None:
        self.limit = limit
        self.seen: dict[str, int] = dict(seen)  # least recently seen first

    def add(self, name: str, stamp: int) -> None:
        """Note that ``name`` was seen at ``stamp``; stamps never go back."""
        seen = self.seen
        if seen.get(name) == stamp:  # the order among equal stamps decides nothing
            return
        if len(name) > LONGEST_NAME:
            name = bounded(name)
            if seen.get(name) == stamp:
                return
        last = seen.pop(name, None)
        if last is None and len(seen) >= self.limit:
            del seen[next(iter(seen))]
        seen[name] = stamp

    def count(self, oldest: int) -> int:
        """Distinct reporters seen at ``oldest`` or later, at most ``limit``."""
        seen = self.seen
        while seen:
            first = next(iter(seen))
            if seen[first] >= oldest:
                break
            del seen[first]
        return len(seen)

    def clear(self) -> None:
        """Forget everybody."""
        self.seen.clear()

    def resized(self, limit: int) -> Reporters:
        """The same with another limit; the least recently seen leave first."""
        return Reporters(limit, list(self.seen.items())[-limit:])

    def restamp(self, new: Callable[[int], int | None]) -> None:
        """Give everybody the stamp that another window would have given; None forgets."""
        stamps = [(name, new(stamp)) for name, stamp in self.seen.items()]
        self.seen = {name: stamp for name, stamp in stamps if stamp is not None}
