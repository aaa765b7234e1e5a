"""The tools that the load calls: their names, and when they are down."""

from __future__ import annotations

import time
import zlib

EMITTED = tuple(f"emitted:server-{number}:tool" for number in range(24))
"""Reported by emitters. They are healthy, with a few errors."""
FLAPPING = tuple(f"emitted:flapping-{number}:tool" for number in range(4))
"""Reported by emitters without a guard. They fail and recover."""
GUARDED = tuple(f"guarded:one-{number}:tool" for number in range(4)) + tuple(
    f"guarded:three-{number}:tool" for number in range(2)
)
"""Called through guards, with one probe or with three. They fail and recover."""
PERIOD_S = 18.0
DOWN_S = 5.0


def is_down(tool: str, now: float | None = None) -> bool:
    """Return whether the tool fails now, by the machine's true clock. All processes get the same answer."""
    at = time.clock_gettime(time.CLOCK_REALTIME) if now is None else now
    return (at + zlib.crc32(tool.encode()) % 1800 / 100) % PERIOD_S < DOWN_S
