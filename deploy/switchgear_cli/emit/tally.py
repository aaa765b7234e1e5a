"""What became of every line, counted once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SHOWN: Final = 20
REMEMBERED: Final = 1_000_000


@dataclass(slots=True)
class Tally:
    """Every line that is not blank is refused here, refused by the broker, acknowledged, or not acknowledged."""

    lines: int = 0
    refused: int = 0
    """Not an execution: never sent."""
    sent: int = 0
    acknowledged: int = 0
    rejected: int = 0
    """Sent, and refused by the broker."""
    without_clock: int = 0
    without_id: int = 0
    late: int = 0
    repeated: int = 0
    _seen: set[str] = field(default_factory=set, repr=False)

    @property
    def unacknowledged(self) -> int:
        """Sent without an answer: in the log or not, nobody knows."""
        return self.sent - self.acknowledged - self.rejected

    @property
    def complete(self) -> bool:
        """Every line is in the log."""
        return self.acknowledged == self.lines

    def note_id(self, metric_id: str) -> None:
        """Count an identity that was there before, among the first million."""
        if metric_id in self._seen:
            self.repeated += 1
        elif len(self._seen) < REMEMBERED:
            self._seen.add(metric_id)

    def summary(self, seconds: float, *, dry_run: bool = False) -> str:
        """One line for the end."""
        if dry_run:
            return f"{self.lines - self.refused:,} lines would be sent, {self.refused:,} refused. Nothing was sent (--dry-run)."
        rate = self.acknowledged / seconds if seconds > 0 else 0.0
        words = f"{self.sent:,} sent, {self.acknowledged:,} acknowledged, {self.refused + self.rejected:,} refused"
        if self.unacknowledged:
            words += f", {self.unacknowledged:,} not acknowledged"
        return f"{words} in {seconds:.1f} s ({rate:,.0f} events/s)."

    def remarks(self, late_after_s: float) -> list[str]:
        """What a person should know besides, one sentence each."""
        found = []
        if self.refused > SHOWN:
            found.append(f"{self.refused - SHOWN:,} more lines were refused; the first {SHOWN} are shown above.")
        if self.without_clock:
            found.append(f"{self.without_clock:,} lines had no recorded_at; stamped with the time of sending.")
        if self.without_id:
            found.append(f"{self.without_id:,} lines had no metric_id; each was given one.")
        if self.repeated:
            found.append(f"{self.repeated:,} lines repeat a metric_id of an earlier line; they were sent as they are.")
        if self.late:
            found.append(
                f"{self.late:,} lines were recorded more than {late_after_s:g} s before they were sent: they are stored, and "
                "no circuit counts them. --restamp shifts their clock to now, --speed 1 keeps their pace as well."
            )
        return found
