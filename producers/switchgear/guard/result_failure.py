"""Results that tell of a failure, read so that nothing of theirs reaches the call."""

from __future__ import annotations

import logging
from typing import Any, Final

from switchgear.bounded_log import BoundedLog
from switchgear.classify import Classification, classify_result, result_text

HARMLESS: Final = frozenset({bool, bytes, float, int, list, set, str, tuple, type(None)})
"""Types of results that can't tell of a failure, as MCP's can."""
_complaints: Final = BoundedLog(logging.getLogger("switchgear.guard"))


def failure_in(result: Any) -> Classification | None:
    """What kind of failure ``result`` tells of; None where it tells of none, or its own attributes fail. Never raises."""
    try:
        return classify_result(result)
    except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
        _complaints.warning(f"a result of type {type(result).__name__} could not be read", error)
        return None


def text_in(result: Any) -> str:
    """What a result that tells of a failure says. Never raises."""
    try:
        return result_text(result) or "the result says that the tool failed"
    except Exception as error:  # noqa: BLE001 - as above
        return f"(its text can't be read: {type(error).__name__})"
