"""How the receivers hand executions on: the contract with the part of the gateway that sends them to Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from switchgear_schemas import ToolExecution
from switchgear_schemas.errors import SwitchgearError


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What happened to a batch of executions. Those that are neither rejected nor unknown were acknowledged.

    Args:
        rejected: Index and reason of each execution that will never be accepted.
        unknown: Indices of those that may or may not be stored. They are sent again, as resent.
        retry_after_s: Seconds to wait before the whole batch is sent again, because nothing of it was taken. None otherwise.
    """

    rejected: Sequence[tuple[int, str]] = ()
    unknown: Sequence[int] = ()
    retry_after_s: float | None = None


class Submit(Protocol):
    """Send executions, and return when Kafka has acknowledged them."""

    def __call__(self, executions: Sequence[ToolExecution], *, resent: bool) -> Awaitable[SubmitResult]:
        """Send a batch.

        Args:
            executions: At most a few thousand.
            resent: They may have been sent before, so they get the header ``switchgear.resent``.
        """


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request.

    Args:
        tenant: Spans of different tenants are never taken for the same call.
        submit: Sends this sender's executions, with its tenant and within its rights.
        client: The credential, by which its requests are counted. Empty for a client of this machine.
    """

    submit: Submit = field(compare=False)
    tenant: str = ""
    client: str = ""


class NotAllowedError(SwitchgearError):
    """A sender has no valid token, or may not send executions.

    Args:
        status: The HTTP status: 401 or 403.
    """

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


SenderOf = Callable[[Mapping[str, str]], Awaitable[Sender]]
"""Returns the sender by the headers of a request, whose names are in lower case. Raises NotAllowedError."""


class TryAgainError(SwitchgearError):
    """Some executions of a request were not acknowledged. The exporter has to send the whole request again.

    Args:
        retry_after_s: Seconds to wait before.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
