"""The errors of alerts."""

from __future__ import annotations

from switchgear_schemas.errors import SwitchgearError


class AlertsFileError(SwitchgearError):
    """The file of routes and receivers is missing or wrong. The message names the table and the key."""


class DeliveryError(SwitchgearError):
    """A receiver did not take a message.

    Args:
        reason: What the receiver answered. It holds no secret.
        permanent: The same message would be refused again.
        retry_after_s: When the receiver asks to be tried again, in seconds.
    """

    def __init__(self, reason: str, *, permanent: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.retry_after_s = retry_after_s
