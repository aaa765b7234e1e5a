"""The one error family: every failure a user can meet says what is wrong and what to do about it."""

from __future__ import annotations


class SwitchgearError(Exception):
    """Base of every error that Switchgear raises on purpose.

    ``str(error)`` is one sentence; ``hint``, where there is one, is the way out.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SettingsError(SwitchgearError):
    """A setting is missing, unknown or out of range; the message names it."""


class InvalidExecutionError(SwitchgearError):
    """Bytes that are not a tool execution.

    ``field`` is the offending field, or ``""`` where the message as a whole is unreadable. ``reason`` is a short,
    stable sentence that goes into the dead-letter record.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class BrokerUnavailableError(SwitchgearError):
    """No Kafka broker answered within the limit."""


class StoreUnavailableError(SwitchgearError):
    """ClickHouse did not answer within the limit, or refused to be opened."""
