"""The guard's form of an execution, which is cheap to make and to encode."""

from __future__ import annotations

from switchgear_schemas.execution_record import Execution


class Event(Execution, omit_defaults=True, gc=True):
    """An execution to send. A field with its default is not sent.

    The emitter fills in ``metric_id``, ``recorded_at``, ``emitter_id`` and ``service`` if they are missing.
    """

    metric_id: str | None = None  # type: ignore[assignment]  # text, of which a reader makes a UUID
