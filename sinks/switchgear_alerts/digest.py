"""Counts for the daily summary, without I/O and clocks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from switchgear_alerts.messages import Digest, ToolTally
from switchgear_alerts.quiet import last_due

MOST_CIRCUITS: Final = 1_000
"""Circuits that are counted by name. The openings of others count in the total."""
_MOST_LISTED: Final = 100
_OTHERS: Final = "other circuits"
_decode_tally: Final = msgspec.json.Decoder(ToolTally).decode


class DigestCounts:
    """What happened since the last digest.

    Args:
        at: The time of the day at which it is due.
        timezone: The time zone of ``at``.
        now: When counting begins, in seconds since 1970.
    """

    def __init__(self, at: time, timezone: ZoneInfo, now: float) -> None:
        self._at = at
        self._timezone = timezone
        self._since = now
        self._tallies: dict[str, ToolTally] = {}
        self._unsaved: dict[str, bytes | None] = {"": msgspec.json.encode(now)}

    def restore(self, key: str, value: bytes) -> None:
        """Take over a saved value."""
        if key == "":
            self._since = msgspec.json.decode(value, type=float)
            self._unsaved.pop("", None)
        else:
            tally = _decode_tally(value)
            self._tallies[tally.circuit_id] = tally

    def opened(self, circuit_id: str) -> None:
        """Count the opening of a circuit."""
        tally = self._tally(circuit_id)
        self._put(replace(tally, opens=tally.opens + 1))

    def closed(self, circuit_id: str, opened_at: float, at: float) -> None:
        """Count the time that a circuit was open. Times are seconds since 1970."""
        tally = self._tally(circuit_id)
        lasted = max(0.0, at - max(opened_at, self._since))
        longest = max(tally.longest_s, at - opened_at)
        self._put(replace(tally, open_s=tally.open_s + lasted, longest_s=longest))

    def due(self, now: float, open_now: Iterable[tuple[str, float]]) -> Digest | None:
        """Return the digest if it is due, and begin to count again.

        Args:
            now: Seconds since 1970.
            open_now: The circuits that are open, and since when.
        """
        if last_due(self._at, now, self._timezone) <= self._since:
            return None
        tallies = dict(self._tallies)
        still = list(open_now)
        for circuit_id, opened_at in still:
            tally = tallies.get(circuit_id) or ToolTally(circuit_id=circuit_id)
            lasted = now - max(opened_at, self._since)
            tallies[circuit_id] = replace(
                tally, open_s=tally.open_s + lasted, longest_s=max(tally.longest_s, now - opened_at)
            )
        ranked = sorted(tallies.values(), key=lambda each: (-each.opens, -each.open_s, each.circuit_id))
        digest = Digest(
            since=self._since,
            until=now,
            opens=sum(each.opens for each in ranked),
            tools=tuple(ranked[:_MOST_LISTED]),
            open_now=tuple(sorted(circuit_id for circuit_id, _ in still)[:_MOST_LISTED]),
        )
        self._unsaved |= dict.fromkeys((f":{circuit_id}" for circuit_id in self._tallies), None)
        self._tallies.clear()
        self._since = now
        self._unsaved[""] = msgspec.json.encode(now)
        return digest

    def take_unsaved(self) -> dict[str, bytes | None]:
        """Return what changed since the last call."""
        found, self._unsaved = self._unsaved, {}
        return found

    def _tally(self, circuit_id: str) -> ToolTally:
        name = circuit_id if circuit_id in self._tallies or len(self._tallies) < MOST_CIRCUITS else _OTHERS
        return self._tallies.get(name) or ToolTally(circuit_id=name)

    def _put(self, tally: ToolTally) -> None:
        self._tallies[tally.circuit_id] = tally
        self._unsaved[f":{tally.circuit_id}"] = msgspec.json.encode(tally)
