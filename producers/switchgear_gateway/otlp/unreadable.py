"""Why a request of OTLP can't be read."""

from __future__ import annotations

from typing import Literal

from switchgear_schemas.errors import SwitchgearError

Encoding = Literal["protobuf", "json"]


class UnreadableBodyError(SwitchgearError):
    """A body isn't what its headers say. The same request must not be sent again."""


class TooManyRecordsError(UnreadableBodyError):
    """A body has more records, or more in a record, than one request may have."""
