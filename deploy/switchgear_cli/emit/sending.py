"""Sending in chunks: many under way, a bounded number, every answer counted, and no wait without an end."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from concurrent.futures import Future
from typing import Final

from switchgear.emitter.emitter import Emitter
from switchgear.emitter.receipt import Receipt
from switchgear_cli.emit.tally import Tally
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError

CHUNK: Final = 500
UNDER_WAY: Final = 32
OLDEST_S: Final = 0.05
"""A paced line waits at most this long for its chunk."""


class Sending:
    """``add`` records one by one; ``finish`` waits for the last answers. ``stall_s``: longest wait without any answer.

    Raises (both):
        BrokerUnavailableError: Kafka answered nothing for ``stall_s`` seconds.
    """

    def __init__(self, emitter: Emitter, tally: Tally, *, stall_s: float) -> None:
        self._emitter = emitter
        self._tally = tally
        self._stall_s = stall_s
        self._chunk: list[tuple[str, bytes]] = []
        self._begun = 0.0
        self._stalled = False
        self._under_way: deque[Future[Receipt]] = deque()
        self.reasons: list[str] = []
        """Why the broker refused what it refused, the first few."""

    def add(self, tool: str, value: bytes) -> None:
        """Take one record; sends when the chunk is full or old."""
        if not self._chunk:
            self._begun = time.monotonic()
        self._chunk.append((tool, value))
        if len(self._chunk) >= CHUNK or time.monotonic() - self._begun >= OLDEST_S:
            self.push()

    def push(self) -> None:
        """Send what has been taken so far."""
        if self._chunk:
            while len(self._under_way) >= UNDER_WAY:
                self._settle_oldest()
            self._under_way.append(self._emitter.submit(self._chunk))
            self._tally.sent += len(self._chunk)
            self._chunk = []
        while self._under_way and self._under_way[0].done():
            self._settle_oldest()

    def finish(self) -> None:
        """Send the rest and wait for every answer. After a stall there is nothing more to wait for."""
        if self._stalled:
            return
        self.push()
        while self._under_way:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        oldest = self._under_way[0]
        deadline = time.monotonic() + self._stall_s
        answered = self._emitter.status().acknowledged
        while True:
            try:
                receipt = oldest.result(timeout=0.5)
                break
            except concurrent.futures.TimeoutError:
                status = self._emitter.status()
                if status.acknowledged > answered:
                    answered, deadline = status.acknowledged, time.monotonic() + self._stall_s
                elif time.monotonic() >= deadline:
                    self._stalled = True
                    why = f" ({status.last_error})" if status.last_error else ""
                    raise BrokerUnavailableError(
                        f"Kafka has acknowledged nothing for {self._stall_s:g} s{why}.",
                        hint="What was not acknowledged may be sent again: its metric_id tells it apart.",
                    ) from None
            except (SwitchgearError, concurrent.futures.CancelledError) as error:
                self._under_way.popleft()
                self._keep(str(error))
                return
        self._under_way.popleft()
        self._tally.acknowledged += receipt.acknowledged
        self._tally.rejected += len(receipt.refused)
        for _, reason in receipt.refused:
            self._keep(reason)

    def _keep(self, reason: str) -> None:
        if len(self.reasons) < 5:
            self.reasons.append(reason)
