"""The Kafka headers that Switchgear writes on executions."""

from __future__ import annotations

from typing import Final

REKEYED: Final = "switchgear.rekeyed"
"""``partition:offset`` of the original, on a copy that the worker sent to the tool's own partition. The worker counts the copy, fenced by
the original's offset. The sink stores the original."""

RESENT: Final = "switchgear.resent"
"""The producer may have sent this event before, for example from a spool after a crash. Readers look it up by ``metric_id``."""

UNREADABLE: Final = "switchgear.unreadable"
"""Why a record can't be read, on the placeholder that :mod:`switchgear_schemas.unreadable` returns instead. It has no value."""
