"""Kafka headers that Switchgear writes on executions."""

from __future__ import annotations

from typing import Final

REKEYED: Final = "switchgear.rekeyed"
"""``partition:offset`` of the original, on the copy that the worker sent to the tool's own partition. The worker counts the
copy (fenced by the original's offset), the sink stores the original: each exactly once."""

RESENT: Final = "switchgear.resent"
"""The producer may have sent this event before (a spool after a crash): it is looked up by ``metric_id`` before it is stored."""

UNREADABLE: Final = "switchgear.unreadable"
"""Of a record that stands in the place of one that can't be read (:mod:`switchgear_schemas.unreadable`): why. Such a record has no value."""
