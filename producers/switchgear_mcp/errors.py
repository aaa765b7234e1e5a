"""What goes wrong between the proxy and a server. The types decide the class in the circuits: see switchgear.classify."""

from __future__ import annotations

from switchgear.classify import IGNORE, Classification
from switchgear.classify.by_code import of_mcp_error


class ServerDownError(ConnectionError):
    """The server can't be reached, or its connection ended during the request. Class ``transport``.

    Args:
        text: What happened.
        news: Whether this is the first tool call that fails because of it. The others say nothing new, and are ignored.
    """

    def __init__(self, text: str, *, news: bool = True) -> None:
        super().__init__(text)
        self.news = news

    @property
    def switchgear_class(self) -> Classification | None:
        """The class in the circuits, None for that of its type."""
        return None if self.news else IGNORE


class ServerSilentError(TimeoutError):
    """The server did not answer in time. Class ``timeout``."""


class ServerStatusError(Exception):
    """The server answered a request with a status of HTTP that is an error. The status decides the class.

    Args:
        text: What happened.
        status_code: The status.
        retry_after: The seconds that the answer's headers ask to wait.
        challenge: The header ``WWW-Authenticate``, which says how to log in.
    """

    def __init__(
        self, text: str, status_code: int, retry_after: float | None = None, challenge: str | None = None
    ) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.retry_after = retry_after
        self.challenge = challenge


class AnswerTooLargeError(Exception):
    """The server's answer costs more than the proxy reads. Class ``invalid_input``: other arguments ask for less."""

    switchgear_class = Classification("invalid_input")


class ServerError(Exception):
    """The server answered with an error of JSON-RPC. Its code and its data decide the class.

    Args:
        text: The server's message.
        code: The code.
        data: What the server says beside it.
    """

    def __init__(self, text: str, code: int, data: object = None) -> None:
        super().__init__(text)
        self.switchgear_class = of_mcp_error(code, data)


class SessionGoneError(Exception):
    """The server has forgotten the session, and has not looked at the request. The proxy sends it again."""
