"""Limits: how large, how old, how much at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the writer. An insert costs 3 ms however small (measured), so batches wait for size or age."""

    batch_rows: int = 20_000
    batch_age_s: float = 0.5
    batch_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 96 * 1024 * 1024
    """Message bytes held at a time, over all partitions, waiting or being inserted."""
    retry_first_s: float = 0.2
    retry_longest_s: float = 10.0
    fence_s: float = 10.0
    """An intent older than this is committed again before the insert: a process that slept finds out that it was replaced."""
    finish_s: float = 5.0
    """How long a batch may take to finish once its partition is revoked or the process is told to stop."""

    @property
    def partition_rows(self) -> int:
        """Rows one partition may hold before its fetching pauses."""
        return 2 * self.batch_rows

    @property
    def partition_bytes(self) -> int:
        """Bytes one partition may hold before its fetching pauses: one that is stuck must not stop the others."""
        return max(self.memory_bytes // 4, self.batch_bytes)
