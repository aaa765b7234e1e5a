"""The errors that Switchgear raises on purpose."""

from __future__ import annotations


class SwitchgearError(Exception):
    """Base class of the errors.

    Args:
        message: What is wrong, as a sentence.
        hint: What to do about it; empty if there is nothing to say.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SettingsError(SwitchgearError):
    """A setting is missing, unknown or out of range. The message names it."""


class WrongUsageError(SwitchgearError):
    """An argument of a command is wrong, found after the command line was parsed. Its exit code is 2; nothing was done."""


class InvalidExecutionError(SwitchgearError):
    """A message isn't a valid execution.

    Args:
        field: The wrong field; empty if the whole message is unreadable.
        reason: A short sentence for the dead letter. It stays the same for the same cause.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class BrokerUnavailableError(SwitchgearError):
    """No Kafka broker answered in time."""


class StoreUnavailableError(SwitchgearError):
    """ClickHouse did not answer in time, or could not be opened."""
