"""The Kafka headers that Switchgear writes on executions."""

from __future__ import annotations

from typing import Final

REKEYED: Final = "switchgear.rekeyed"
"""``partition:offset`` of the original, on a copy that the worker sent to the tool's own partition. The worker counts the copy, fenced by
the original's offset. The sink stores the original."""

MOVED: Final = "switchgear.moved"
"""``partition:offset`` of a copy, on a copy of it: the first one lay in a partition that owned the tool before families, or under another
``family_pattern``. It is fenced apart from the copies that workers make now, which may overtake it."""

RESENT: Final = "switchgear.resent"
"""The producer may have sent this event before, for example from a spool after a crash. Readers look it up by ``metric_id``."""

UNREADABLE: Final = "switchgear.unreadable"
"""Why a record can't be read, on the placeholder that :mod:`switchgear_schemas.unreadable` returns instead. It has no value."""
