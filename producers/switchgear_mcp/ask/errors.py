"""What goes wrong while a question is answered."""

from __future__ import annotations

from switchgear_schemas.errors import SwitchgearError


class AskError(SwitchgearError):
    """A question has no answer. The message is for a model: it is in our words, and what it quotes is marked as data.

    Args:
        message: What is wrong, and what to do.
        status: The status of the API's answer. 0: it gave none.
    """

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
