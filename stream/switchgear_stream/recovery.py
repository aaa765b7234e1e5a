"""Recovery: Faust's, without its reading. The take-over reads the rows back, :mod:`.takeover`.

Faust's own recovery drops what it takes for read before, in two places: by the consumer's mark of each partition, which a poll in flight
sets back after a seek, and by the offset that the table has come to. With a rebalance amid a recovery both went wrong: it waited for ever
for rows that it had dropped itself, or ended without them, and circuits forgot what they had counted (9 times in one chaos run of 600 s).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, cast

from faust.tables import recovery as faust_recovery
from faust.types import TP
from faust.types.transports import ConsumerT

if TYPE_CHECKING:
    from switchgear_stream.intake import Consumer


class Recovery(faust_recovery.Recovery):
    """When to recover, and what comes after it, stay Faust's: the table's ``on_recovery_completed`` is awaited before the first event."""

    def need_recovery(self) -> bool:
        """Nothing, for Faust: there is nothing to wait for."""
        return False

    async def _build_highwaters(
        self, consumer: ConsumerT, tps: AbstractSet[TP], destination: Counter[TP], title: str
    ) -> None:
        """Nobody asks."""

    async def _build_offsets(
        self, consumer: ConsumerT, tps: AbstractSet[TP], destination: Counter[TP], title: str
    ) -> None:
        """Likewise."""

    async def _seek_offsets(
        self,
        consumer: ConsumerT,
        tps: AbstractSet[TP],
        offsets: Counter[TP],  # noqa: ARG002 - Faust's signature
        title: str,  # noqa: ARG002 - likewise
    ) -> None:
        """Have the consumer leave the changelog alone, until the next assignment."""
        await cast("Consumer", consumer).rest(tps)
